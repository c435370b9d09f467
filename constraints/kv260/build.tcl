# Packages the accelerator as an IP, builds a block design around it and implements that:
#
#     vivado -mode batch -source build.tcl
#
# writes build/unembed.bit and build/unembed.xsa, or stops with an error, also if timing is not met.
# Needs the board files of the KV260, which Vivado offers among its boards.
#
# Clocks: pl_clk0 of the processing system (100 MHz) -> clk_wiz -> everything in the design.
# Registers: M_AXI_HPM0_FPD -> s_axi_control, at control_base.
# Memory: m_axi_gmem<n> -> S_AXI_HP<n>_FPD. These ports are not coherent with the caches.
# Interrupt: pl_ps_irq0[0], a level; 89 among the shared interrupts of the device tree.

set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]
set out [file join $here build]
set control_base 0xA0000000
set pl_clock_mhz 100

file mkdir $out
set board_part [lindex [get_board_parts -quiet "*:kv260_som:*" -latest_file_version] 0]
if {$board_part eq ""} {
    error "the board files of the KV260 (kv260_som) are not installed"
}

# One bus interface of the IP, with every port of it.
proc add_interface {core name mode kind ports} {
    set interface [ipx::add_bus_interface $name $core]
    set_property abstraction_type_vlnv "xilinx.com:${kind}_rtl:1.0" $interface
    set_property bus_type_vlnv "xilinx.com:${kind}:1.0" $interface
    set_property interface_mode $mode $interface
    foreach {physical logical} $ports {
        set_property physical_name $physical [ipx::add_port_map $logical $interface]
    }
    return $interface
}

proc add_parameter {interface name value} {
    set_property value $value [ipx::add_bus_parameter $name $interface]
}

# What names alone would have Vivado infer is replaced: ports without write channels included,
# nothing is left to its rules.
proc package_ip {} {
    global here out part version interfaces
    create_project -force package [file join $out package] -part $part
    add_files -norecurse [file join $here unembed.v]
    set_property top unembed [current_fileset]
    update_compile_order -fileset sources_1
    ipx::package_project -root_dir [file join $out ip] -vendor unembed -library ip \
        -taxonomy /UserIP -import_files -set_current true -force
    set core [ipx::current_core]
    set_property name unembed $core
    set_property display_name unembed $core
    set_property description "Language-model head: streaming dot products with a top-k" $core
    set_property version $version $core
    ipx::remove_all_bus_interface $core
    ipx::remove_all_memory_map $core
    ipx::remove_all_address_space $core

    set names {}
    foreach {name mode channels ports} $interfaces {
        lappend names $name
        set interface [add_interface $core $name $mode interface:aximm $ports]
        if {$mode eq "master"} {
            add_parameter $interface READ_WRITE_MODE $channels
            set space [ipx::add_address_space $name $core]
            set_property range 16E $space
            set_property width 64 $space
            set_property master_address_space_ref $name $interface
        } else {
            set block [ipx::add_address_block Reg [ipx::add_memory_map $name $core]]
            set_property range 4096 $block
            set_property width 32 $block
            set_property usage register $block
            set_property slave_memory_map_ref $name $interface
        }
    }
    set clock [add_interface $core ap_clk slave signal:clock {ap_clk CLK}]
    add_parameter $clock ASSOCIATED_BUSIF [join $names :]
    add_parameter $clock ASSOCIATED_RESET ap_rst_n
    set reset [add_interface $core ap_rst_n slave signal:reset {ap_rst_n RST}]
    add_parameter $reset POLARITY ACTIVE_LOW
    set interrupt [add_interface $core interrupt master signal:interrupt {interrupt INTERRUPT}]
    add_parameter $interrupt SENSITIVITY LEVEL_HIGH

    # The clock of the block design decides the frequency.
    set_property ipi_drc {ignore_freq_hz true} $core
    ipx::create_xgui_files $core
    ipx::update_checksums $core
    ipx::check_integrity $core
    ipx::save_core $core
    close_project
}

proc add_ip {name type {properties {}}} {
    set cell [create_bd_cell -type ip -vlnv "xilinx.com:ip:$type" $name]
    if {[llength $properties]} {
        set_property -dict $properties $cell
    }
    return $cell
}

proc connect {source args} {
    foreach pin $args {
        connect_bd_net [get_bd_pins $source] [get_bd_pins $pin]
    }
}

proc connect_bus {master slave} {
    connect_bd_intf_net [get_bd_intf_pins $master] [get_bd_intf_pins $slave]
}

# A SmartConnect with one master and one slave: it changes width, protocol and burst length.
proc add_smartconnect {name master slave} {
    add_ip $name smartconnect {CONFIG.NUM_SI 1 CONFIG.NUM_MI 1}
    connect clocks/clk_out1 $name/aclk
    connect reset/interconnect_aresetn $name/aresetn
    connect_bus $master $name/S00_AXI
    connect_bus $name/M00_AXI $slave
}

# The processing system with the ports that are used; GP2 to GP5 are S_AXI_HP0_FPD to HP3_FPD.
proc add_processing_system {} {
    global bus_bits channels pl_clock_mhz
    set ps [add_ip ps zynq_ultra_ps_e]
    apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e \
        -config {apply_board_preset "1"} $ps
    set properties [list \
        CONFIG.PSU__USE__M_AXI_GP0 1 \
        CONFIG.PSU__MAXIGP0__DATA_WIDTH 32 \
        CONFIG.PSU__USE__M_AXI_GP1 0 \
        CONFIG.PSU__USE__M_AXI_GP2 0 \
        CONFIG.PSU__USE__IRQ0 1 \
        CONFIG.PSU__FPGA_PL0_ENABLE 1 \
        CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $pl_clock_mhz \
        CONFIG.PSU__TTC0__WAVEOUT__ENABLE 1 \
        CONFIG.PSU__TTC0__WAVEOUT__IO EMIO]
    for {set channel 0} {$channel < 4} {incr channel} {
        set port [expr {$channel + 2}]
        lappend properties CONFIG.PSU__USE__S_AXI_GP$port [expr {$channel < $channels}]
        if {$channel < $channels} {
            lappend properties CONFIG.PSU__SAXIGP${port}__DATA_WIDTH $bus_bits
        }
    }
    set_property -dict $properties $ps
    return $ps
}

proc create_design {} {
    global clock_mhz channels control_base
    create_bd_design system
    set ps [add_processing_system]

    # What the processing system makes of 100 MHz, so that nothing is rounded twice.
    set input_mhz [get_property CONFIG.PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ $ps]
    add_ip clocks clk_wiz [list \
        CONFIG.PRIM_IN_FREQ $input_mhz \
        CONFIG.CLKOUT1_REQUESTED_OUT_FREQ $clock_mhz \
        CONFIG.USE_LOCKED true \
        CONFIG.USE_RESET false]
    add_ip reset proc_sys_reset {CONFIG.C_EXT_RESET_HIGH 0}
    connect ps/pl_clk0 clocks/clk_in1
    connect ps/pl_resetn0 reset/ext_reset_in
    connect clocks/locked reset/dcm_locked
    connect clocks/clk_out1 reset/slowest_sync_clk ps/maxihpm0_fpd_aclk

    create_bd_cell -type ip -vlnv unembed:ip:unembed unembed
    connect clocks/clk_out1 unembed/ap_clk
    connect reset/peripheral_aresetn unembed/ap_rst_n
    connect unembed/interrupt ps/pl_ps_irq0
    add_smartconnect control ps/M_AXI_HPM0_FPD unembed/s_axi_control
    for {set channel 0} {$channel < $channels} {incr channel} {
        connect clocks/clk_out1 ps/saxihp${channel}_fpd_aclk
        add_smartconnect memory$channel unembed/m_axi_gmem$channel ps/S_AXI_HP${channel}_FPD
    }

    # The fan is controlled as in AMD's own designs for the board.
    add_ip fan xlslice {CONFIG.DIN_WIDTH 3 CONFIG.DIN_FROM 2 CONFIG.DIN_TO 2}
    create_bd_port -dir O fan_en_b
    connect ps/emio_ttc0_wave_o fan/Din
    connect_bd_net [get_bd_pins fan/Dout] [get_bd_ports fan_en_b]

    assign_bd_address -offset $control_base -range 4K \
        -target_address_space [get_bd_addr_spaces ps/Data] \
        [get_bd_addr_segs unembed/s_axi_control/Reg]
    for {set channel 0} {$channel < $channels} {incr channel} {
        set segments ps/SAXIGP[expr {$channel + 2}]/HP${channel}
        set space [get_bd_addr_spaces unembed/m_axi_gmem$channel]
        foreach part {DDR_LOW DDR_HIGH} {
            assign_bd_address -target_address_space $space [get_bd_addr_segs ${segments}_$part]
        }
        foreach part {QSPI LPS_OCM} {
            set segment [get_bd_addr_segs -quiet ${segments}_$part]
            if {$segment ne ""} {
                exclude_bd_addr_seg -target_address_space $space $segment
            }
        }
    }
    validate_bd_design
    save_bd_design
}

proc run_step {run step} {
    launch_runs $run {*}$step -jobs 4
    wait_on_run $run
    if {[get_property PROGRESS [get_runs $run]] ne "100%"} {
        error "$run failed: [get_property STATUS [get_runs $run]]"
    }
}

proc implement {} {
    global here out part board_part
    create_project -force unembed [file join $out project] -part $part
    set_property board_part $board_part [current_project]
    set_property ip_repo_paths [file join $out ip] [current_project]
    update_ip_catalog
    add_files -fileset constrs_1 -norecurse [file join $here kv260.xdc]
    create_design

    set design [get_files system.bd]
    add_files -norecurse [make_wrapper -files $design -top]
    set_property top system_wrapper [current_fileset]
    update_compile_order -fileset sources_1
    run_step synth_1 {}
    run_step impl_1 {-to_step route_design}

    open_run impl_1
    report_utilization -hierarchical -file [file join $out utilization.rpt]
    report_timing_summary -file [file join $out timing.rpt]
    set failing [get_timing_paths -quiet -delay_type min_max -max_paths 1 -slack_lesser_than 0]
    if {[llength $failing]} {
        set slack [get_property SLACK [lindex $failing 0]]
        error "timing is not met, slack $slack ns: see [file join $out timing.rpt]"
    }
    close_design

    run_step impl_1 {-to_step write_bitstream}
    set folder [get_property DIRECTORY [get_runs impl_1]]
    file copy -force [file join $folder system_wrapper.bit] [file join $out unembed.bit]
    write_hw_platform -fixed -include_bit -force -file [file join $out unembed.xsa]
    close_project
}

package_ip
implement
puts "written: [file join $out unembed.bit] and unembed.xsa"
