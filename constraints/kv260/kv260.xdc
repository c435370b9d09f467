# Pins of the KV260 that the block design drives.
# Source: AMD, kria-base-hardware, k26_starter_kits/kv260; litex-boards, xilinx_kv260.py.

# The fan turns at full speed while it is low.
set_property PACKAGE_PIN A12 [get_ports fan_en_b]
set_property IOSTANDARD LVCMOS33 [get_ports fan_en_b]
set_property SLEW SLOW [get_ports fan_en_b]
set_property DRIVE 4 [get_ports fan_en_b]
