// AXI4 slave in front of the simulated DRAM (storage, timing and protocol are in C++).
//
// One DPI-C call per rising clock edge passes what the master drove in the cycle before and gets
// what the slave drives in the next; every output is a register. `port` selects the C++ port; it
// comes as a signal so that any number of simulations and memories live in one process.
module axi_memory #(
    parameter int DATA_BITS = 512
) (
    input  logic                   clk,
    input  logic                   rst_n,
    input  logic [           63:0] port,
    input  logic                   arid,
    input  logic [           63:0] araddr,
    input  logic [            7:0] arlen,
    input  logic [            2:0] arsize,
    input  logic [            1:0] arburst,
    input  logic                   arvalid,
    output logic                   arready,
    output logic                   rid,
    output logic [  DATA_BITS-1:0] rdata,
    output logic [            1:0] rresp,
    output logic                   rlast,
    output logic                   rvalid,
    input  logic                   rready,
    input  logic                   awid,
    input  logic [           63:0] awaddr,
    input  logic [            7:0] awlen,
    input  logic [            2:0] awsize,
    input  logic [            1:0] awburst,
    input  logic                   awvalid,
    output logic                   awready,
    input  logic [  DATA_BITS-1:0] wdata,
    input  logic [DATA_BITS/8-1:0] wstrb,
    input  logic                   wlast,
    input  logic                   wvalid,
    output logic                   wready,
    output logic                   bid,
    output logic [            1:0] bresp,
    output logic                   bvalid,
    input  logic                   bready
);
  import "DPI-C" function void unembed_axi_clock(
    input longint unsigned port,
    // reset, bready, wlast, wvalid, awvalid, rready, arvalid (bit 0)
    input int unsigned valids,
    input longint unsigned araddr,
    // id (bit 13), burst, size, len (bit 0)
    input int unsigned ar_control,
    input longint unsigned awaddr,
    input int unsigned aw_control,
    input longint unsigned wstrb,
    input bit [DATA_BITS-1:0] wdata,
    // bresp (bit 8), bvalid, wready, awready, rresp (bit 3), rlast, rvalid, arready (bit 0)
    output int unsigned slave,
    output bit [DATA_BITS-1:0] rdata
  );

  assign rid = 1'b0;
  assign bid = 1'b0;

  // Outputs of a DPI call are written at once: they go through temporaries, so that no other
  // process can see them before the clock edge is over.
  int unsigned next_slave;
  bit [DATA_BITS-1:0] next_rdata;

  always_ff @(posedge clk) begin
    unembed_axi_clock(port, 32'({!rst_n, bready, wlast, wvalid, awvalid, rready, arvalid}), araddr,
                      32'({arid, arburst, arsize, arlen}), awaddr,
                      32'({awid, awburst, awsize, awlen}), 64'(wstrb), wdata, next_slave,
                      next_rdata);
    {bresp, bvalid, wready, awready, rresp, rlast, rvalid, arready} <= next_slave[9:0];
    rdata <= next_rdata;
  end
endmodule
