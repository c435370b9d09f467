// The accelerator and its memory: the top of both simulations.
//
// The accelerator's pins have their own names here, so that `dut.m_axi_gmem0_rvalid` or
// `AxiLiteBus.from_prefix(dut, "s_axi_control")` work in a testbench. `stream_valid` and
// `stream_ready` are the handshake of the reader's output stream; STREAM_VALID and STREAM_READY are
// its hierarchical names below `accelerator`, given by the build where a testbench watches.
module simulation #(
    parameter int DATA_BITS = 512,
    parameter bit CONSTANT_MEMORY = 0
) (
    input logic ap_clk,
    input logic ap_rst_n,
    input logic [63:0] memory_port,
    // Not named `interrupt`, which Verilator renames as a word that C++ compilers reserve.
    output logic irq,

    input  logic [11:0] s_axi_control_awaddr,
    input  logic [ 2:0] s_axi_control_awprot,
    input  logic        s_axi_control_awvalid,
    output logic        s_axi_control_awready,
    input  logic [31:0] s_axi_control_wdata,
    input  logic [ 3:0] s_axi_control_wstrb,
    input  logic        s_axi_control_wvalid,
    output logic        s_axi_control_wready,
    output logic [ 1:0] s_axi_control_bresp,
    output logic        s_axi_control_bvalid,
    input  logic        s_axi_control_bready,
    input  logic [11:0] s_axi_control_araddr,
    input  logic [ 2:0] s_axi_control_arprot,
    input  logic        s_axi_control_arvalid,
    output logic        s_axi_control_arready,
    output logic [31:0] s_axi_control_rdata,
    output logic [ 1:0] s_axi_control_rresp,
    output logic        s_axi_control_rvalid,
    input  logic        s_axi_control_rready
);
  logic                     m_axi_gmem0_arid;
  logic [             63:0] m_axi_gmem0_araddr;
  logic [              7:0] m_axi_gmem0_arlen;
  logic [              2:0] m_axi_gmem0_arsize;
  logic [              1:0] m_axi_gmem0_arburst;
  logic                     m_axi_gmem0_arlock;
  logic [              3:0] m_axi_gmem0_arcache;
  logic [              2:0] m_axi_gmem0_arprot;
  logic [              3:0] m_axi_gmem0_arqos;
  logic                     m_axi_gmem0_arvalid;
  logic                     m_axi_gmem0_arready;
  logic                     m_axi_gmem0_rid;
  logic [    DATA_BITS-1:0] m_axi_gmem0_rdata;
  logic [              1:0] m_axi_gmem0_rresp;
  logic                     m_axi_gmem0_rlast;
  logic                     m_axi_gmem0_rvalid;
  logic                     m_axi_gmem0_rready;
  logic                     m_axi_gmem0_awid;
  logic [             63:0] m_axi_gmem0_awaddr;
  logic [              7:0] m_axi_gmem0_awlen;
  logic [              2:0] m_axi_gmem0_awsize;
  logic [              1:0] m_axi_gmem0_awburst;
  logic                     m_axi_gmem0_awlock;
  logic [              3:0] m_axi_gmem0_awcache;
  logic [              2:0] m_axi_gmem0_awprot;
  logic [              3:0] m_axi_gmem0_awqos;
  logic                     m_axi_gmem0_awvalid;
  logic                     m_axi_gmem0_awready;
  logic [    DATA_BITS-1:0] m_axi_gmem0_wdata;
  logic [DATA_BITS / 8-1:0] m_axi_gmem0_wstrb;
  logic                     m_axi_gmem0_wlast;
  logic                     m_axi_gmem0_wvalid;
  logic                     m_axi_gmem0_wready;
  logic                     m_axi_gmem0_bid;
  logic [              1:0] m_axi_gmem0_bresp;
  logic                     m_axi_gmem0_bvalid;
  logic                     m_axi_gmem0_bready;

  logic interrupt;
  assign irq = interrupt;

  // All logic that depends on top-level inputs is computed in every evaluation of a Verilated
  // model, several times a clock cycle. Inputs change only around register accesses, so the
  // accelerator sees them through variables that are written when they change, and a clock edge
  // costs no more than the logic behind those.
  logic        held_rst_n = 0;
  logic [63:0] held_port = 0;
  logic [11:0] held_awaddr = 0;
  logic [ 2:0] held_awprot = 0;
  logic        held_awvalid = 0;
  logic [31:0] held_wdata = 0;
  logic [ 3:0] held_wstrb = 0;
  logic        held_wvalid = 0;
  logic        held_bready = 0;
  logic [11:0] held_araddr = 0;
  logic [ 2:0] held_arprot = 0;
  logic        held_arvalid = 0;
  logic        held_rready = 0;

  always @(
    ap_rst_n, memory_port, s_axi_control_awaddr, s_axi_control_awprot, s_axi_control_awvalid,
    s_axi_control_wdata, s_axi_control_wstrb, s_axi_control_wvalid, s_axi_control_bready,
    s_axi_control_araddr, s_axi_control_arprot, s_axi_control_arvalid, s_axi_control_rready
  ) begin
    held_rst_n <= ap_rst_n;
    held_port <= memory_port;
    held_awaddr <= s_axi_control_awaddr;
    held_awprot <= s_axi_control_awprot;
    held_awvalid <= s_axi_control_awvalid;
    held_wdata <= s_axi_control_wdata;
    held_wstrb <= s_axi_control_wstrb;
    held_wvalid <= s_axi_control_wvalid;
    held_bready <= s_axi_control_bready;
    held_araddr <= s_axi_control_araddr;
    held_arprot <= s_axi_control_arprot;
    held_arvalid <= s_axi_control_arvalid;
    held_rready <= s_axi_control_rready;
  end

  unembed accelerator (
      .ap_rst_n(held_rst_n),
      .s_axi_control_awaddr(held_awaddr),
      .s_axi_control_awprot(held_awprot),
      .s_axi_control_arprot(held_arprot),
      .s_axi_control_awvalid(held_awvalid),
      .s_axi_control_wdata(held_wdata),
      .s_axi_control_wstrb(held_wstrb),
      .s_axi_control_wvalid(held_wvalid),
      .s_axi_control_bready(held_bready),
      .s_axi_control_araddr(held_araddr),
      .s_axi_control_arvalid(held_arvalid),
      .s_axi_control_rready(held_rready),
      .*
  );

`ifdef STREAM_VALID
  wire stream_valid = accelerator.`STREAM_VALID;
  wire stream_ready = accelerator.`STREAM_READY;

  // What a monitor looks at in every clock, in one word because each look costs time.
  wire [10:0] watched = {
    s_axi_control_wvalid & s_axi_control_wready,
    s_axi_control_awvalid & s_axi_control_awready,
    interrupt,
    stream_ready,
    stream_valid,
    m_axi_gmem0_wready,
    m_axi_gmem0_wvalid,
    m_axi_gmem0_rready,
    m_axi_gmem0_rvalid,
    m_axi_gmem0_arready,
    m_axi_gmem0_arvalid
  };
`endif

`define CONNECT_MEMORY \
      .clk(ap_clk), .rst_n(held_rst_n), .port(held_port), \
      .arid(m_axi_gmem0_arid), .araddr(m_axi_gmem0_araddr), .arlen(m_axi_gmem0_arlen), \
      .arsize(m_axi_gmem0_arsize), .arburst(m_axi_gmem0_arburst), \
      .arvalid(m_axi_gmem0_arvalid), .arready(m_axi_gmem0_arready), \
      .rid(m_axi_gmem0_rid), .rdata(m_axi_gmem0_rdata), .rresp(m_axi_gmem0_rresp), \
      .rlast(m_axi_gmem0_rlast), .rvalid(m_axi_gmem0_rvalid), .rready(m_axi_gmem0_rready), \
      .awid(m_axi_gmem0_awid), .awaddr(m_axi_gmem0_awaddr), .awlen(m_axi_gmem0_awlen), \
      .awsize(m_axi_gmem0_awsize), .awburst(m_axi_gmem0_awburst), \
      .awvalid(m_axi_gmem0_awvalid), .awready(m_axi_gmem0_awready), \
      .wdata(m_axi_gmem0_wdata), .wstrb(m_axi_gmem0_wstrb), .wlast(m_axi_gmem0_wlast), \
      .wvalid(m_axi_gmem0_wvalid), .wready(m_axi_gmem0_wready), \
      .bid(m_axi_gmem0_bid), .bresp(m_axi_gmem0_bresp), .bvalid(m_axi_gmem0_bvalid), \
      .bready(m_axi_gmem0_bready)

  if (CONSTANT_MEMORY) begin : constant
    axi_constant #(.DATA_BITS(DATA_BITS)) memory (`CONNECT_MEMORY);
  end else begin : dram
    axi_memory #(.DATA_BITS(DATA_BITS)) memory (`CONNECT_MEMORY);
  end
endmodule
