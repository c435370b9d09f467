# Stands in for Vivado: every command that build.tcl uses records its call and answers with what the
# script needs to go on. A command that is missing here is an error, as a misspelt one in Vivado is.
#
#     tclsh vivado_stub.tcl SCRIPT LOG [no_board | failing_timing]
#
# LOG: a call a line, its words separated by tabs.

lassign $argv script log_path situation
set log [open $log_path w]

proc record {call} {
    set words {}
    foreach word $call {
        lappend words [string map {\n " " \t " "} $word]
    }
    puts $::log [join $words \t]
    flush $::log
}

# Commands without an answer of their own.
foreach name {
    create_project close_project close_design open_run add_files update_compile_order
    update_ip_catalog apply_bd_automation create_bd_design create_bd_port
    connect_bd_net connect_bd_intf_net assign_bd_address exclude_bd_addr_seg validate_bd_design
    save_bd_design wait_on_run report_utilization report_timing_summary
    set_property write_hw_platform
    ipx::package_project ipx::remove_all_bus_interface ipx::remove_all_memory_map
    ipx::remove_all_address_space ipx::create_xgui_files ipx::update_checksums
    ipx::check_integrity ipx::save_core
} {
    namespace eval ipx {}
    proc $name args "record \[list $name {*}\$args\]"
}

# Objects are their names.
foreach name {
    get_bd_pins get_bd_intf_pins get_bd_ports get_bd_addr_spaces get_bd_cells get_files get_runs
} {
    proc $name args {return [lindex $args end]}
}
proc current_project {} {return project}
proc current_fileset {} {return sources_1}
proc ipx::current_core {} {return core}
proc get_bd_addr_segs args {
    # The block design has all segments of a port that a Zynq UltraScale+ has.
    return [lindex $args end]
}

# An object within another is a path.
foreach name {
    ipx::add_bus_interface ipx::add_port_map ipx::add_bus_parameter ipx::add_address_space
    ipx::add_memory_map ipx::add_address_block
} {
    proc $name {name parent} "record \[list $name \$name \$parent\]; return \$parent/\$name"
}

proc create_bd_cell args {
    record [list create_bd_cell {*}$args]
    return [lindex $args end]
}

proc get_board_parts args {
    if {$::situation eq "no_board"} {return {}}
    return xilinx.com:kv260_som:part0:1.4
}

proc make_wrapper args {
    record [list make_wrapper {*}$args]
    return system_wrapper.v
}

proc get_timing_paths args {
    record [list get_timing_paths {*}$args]
    if {$::situation eq "failing_timing"} {return path}
    return {}
}

proc launch_runs args {
    record [list launch_runs {*}$args]
    if {"write_bitstream" in $args} {
        close [open [file join [file dirname $::log_path] system_wrapper.bit] w]
    }
}

proc get_property {name object} {
    switch $name {
        CONFIG.PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ {return 99.999001}
        PROGRESS {return 100%}
        SLACK {return -0.25}
        DIRECTORY {return [file dirname $::log_path]}
    }
    error "get_property $name of $object is not known"
}

source $script
close $log
