// The accelerator and its memory: the top of both simulations.
//
// The accelerator's pins have their own names here, so that `dut.m_axi_gmem0_rvalid` or
// `AxiLiteBus.from_prefix(dut, "s_axi_control")` work in a testbench. The build defines
//   CHANNELS_2, CHANNELS_4, CHANNELS_8   where there are at least as many memory channels,
//   READ_ONLY_CHANNELS                   where all but the first have no pins to write,
//   WATCHED                              where a testbench watches.
// The pins of the AXI4 master of channel N.
`define PINS(N) \
  logic                     m_axi_gmem``N``_arid; \
  logic [             63:0] m_axi_gmem``N``_araddr; \
  logic [              7:0] m_axi_gmem``N``_arlen; \
  logic [              2:0] m_axi_gmem``N``_arsize; \
  logic [              1:0] m_axi_gmem``N``_arburst; \
  logic                     m_axi_gmem``N``_arlock; \
  logic [              3:0] m_axi_gmem``N``_arcache; \
  logic [              2:0] m_axi_gmem``N``_arprot; \
  logic [              3:0] m_axi_gmem``N``_arqos; \
  logic                     m_axi_gmem``N``_arvalid; \
  logic                     m_axi_gmem``N``_arready; \
  logic                     m_axi_gmem``N``_rid; \
  logic [    DATA_BITS-1:0] m_axi_gmem``N``_rdata; \
  logic [              1:0] m_axi_gmem``N``_rresp; \
  logic                     m_axi_gmem``N``_rlast; \
  logic                     m_axi_gmem``N``_rvalid; \
  logic                     m_axi_gmem``N``_rready; \
  logic                     m_axi_gmem``N``_awid; \
  logic [             63:0] m_axi_gmem``N``_awaddr; \
  logic [              7:0] m_axi_gmem``N``_awlen; \
  logic [              2:0] m_axi_gmem``N``_awsize; \
  logic [              1:0] m_axi_gmem``N``_awburst; \
  logic                     m_axi_gmem``N``_awlock; \
  logic [              3:0] m_axi_gmem``N``_awcache; \
  logic [              2:0] m_axi_gmem``N``_awprot; \
  logic [              3:0] m_axi_gmem``N``_awqos; \
  logic                     m_axi_gmem``N``_awvalid; \
  logic                     m_axi_gmem``N``_awready; \
  logic [    DATA_BITS-1:0] m_axi_gmem``N``_wdata; \
  logic [DATA_BITS / 8-1:0] m_axi_gmem``N``_wstrb; \
  logic                     m_axi_gmem``N``_wlast; \
  logic                     m_axi_gmem``N``_wvalid; \
  logic                     m_axi_gmem``N``_wready; \
  logic                     m_axi_gmem``N``_bid; \
  logic [              1:0] m_axi_gmem``N``_bresp; \
  logic                     m_axi_gmem``N``_bvalid; \
  logic                     m_axi_gmem``N``_bready;

`define NO_WRITES(N) \
  assign {m_axi_gmem``N``_awvalid, m_axi_gmem``N``_wvalid, m_axi_gmem``N``_bready} = 0;

// The memory at the pins of channel N, a module of the given kind.
`define MEMORY(N, KIND) \
  KIND #(.DATA_BITS(DATA_BITS)) memory ( \
      .clk(ap_clk), .rst_n(held_rst_n), .port(held_port[64 * N+:64]), \
      .arid(m_axi_gmem``N``_arid), .araddr(m_axi_gmem``N``_araddr), \
      .arlen(m_axi_gmem``N``_arlen), .arsize(m_axi_gmem``N``_arsize), \
      .arburst(m_axi_gmem``N``_arburst), .arvalid(m_axi_gmem``N``_arvalid), \
      .arready(m_axi_gmem``N``_arready), \
      .rid(m_axi_gmem``N``_rid), .rdata(m_axi_gmem``N``_rdata), \
      .rresp(m_axi_gmem``N``_rresp), .rlast(m_axi_gmem``N``_rlast), \
      .rvalid(m_axi_gmem``N``_rvalid), .rready(m_axi_gmem``N``_rready), \
      .awid(m_axi_gmem``N``_awid), .awaddr(m_axi_gmem``N``_awaddr), \
      .awlen(m_axi_gmem``N``_awlen), .awsize(m_axi_gmem``N``_awsize), \
      .awburst(m_axi_gmem``N``_awburst), .awvalid(m_axi_gmem``N``_awvalid), \
      .awready(m_axi_gmem``N``_awready), \
      .wdata(m_axi_gmem``N``_wdata), .wstrb(m_axi_gmem``N``_wstrb), \
      .wlast(m_axi_gmem``N``_wlast), .wvalid(m_axi_gmem``N``_wvalid), \
      .wready(m_axi_gmem``N``_wready), \
      .bid(m_axi_gmem``N``_bid), .bresp(m_axi_gmem``N``_bresp), \
      .bvalid(m_axi_gmem``N``_bvalid), .bready(m_axi_gmem``N``_bready) \
  );

// What a testbench watches of channel N.
`ifdef WATCHED
`define WATCH(N) \
  assign stream_valid[N] = accelerator.channel``N``.reader.o__valid; \
  assign stream_ready[N] = accelerator.channel``N``.reader.o__ready; \
  assign watched[3 + 8 * N+:8] = { \
    stream_ready[N], \
    stream_valid[N], \
    m_axi_gmem``N``_wready, \
    m_axi_gmem``N``_wvalid, \
    m_axi_gmem``N``_rready, \
    m_axi_gmem``N``_rvalid, \
    m_axi_gmem``N``_arready, \
    m_axi_gmem``N``_arvalid \
  };
`else
`define WATCH(N)
`endif

`define CHANNEL(N) \
  `PINS(N) \
  `WATCH(N) \
  if (CONSTANT_MEMORY) begin : constant``N \
    `MEMORY(N, axi_constant) \
  end else begin : dram``N \
    `MEMORY(N, axi_memory) \
  end

`ifdef READ_ONLY_CHANNELS
`define FURTHER_CHANNEL(N) `CHANNEL(N) `NO_WRITES(N)
`else
`define FURTHER_CHANNEL(N) `CHANNEL(N)
`endif

module simulation #(
    parameter int DATA_BITS = 512,
    parameter int CHANNELS = 1,
    parameter bit CONSTANT_MEMORY = 0
) (
    input logic ap_clk,
    input logic ap_rst_n,
    // A C++ port per channel, that of channel 0 in the lowest bits.
    input logic [64 * CHANNELS - 1:0] memory_port,
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
  logic interrupt;
  assign irq = interrupt;

  // All logic that depends on top-level inputs is computed in every evaluation of a Verilated
  // model, several times a clock cycle. Inputs change only around register accesses, so the
  // accelerator sees them through variables that are written when they change, and a clock edge
  // costs no more than the logic behind those.
  logic        held_rst_n = 0;
  logic [64 * CHANNELS - 1:0] held_port = 0;
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

`ifdef WATCHED
  // The handshake of each reader's output stream.
  wire [CHANNELS-1:0] stream_valid, stream_ready;
  // What a monitor looks at in every clock, in one word because each look costs time.
  wire [8 * CHANNELS + 2:0] watched;
  assign watched[2:0] = {
    s_axi_control_wvalid & s_axi_control_wready,
    s_axi_control_awvalid & s_axi_control_awready,
    interrupt
  };
`endif

  `CHANNEL(0)
`ifdef CHANNELS_2
  `FURTHER_CHANNEL(1)
`endif
`ifdef CHANNELS_4
  `FURTHER_CHANNEL(2)
  `FURTHER_CHANNEL(3)
`endif
`ifdef CHANNELS_8
  `FURTHER_CHANNEL(4)
  `FURTHER_CHANNEL(5)
  `FURTHER_CHANNEL(6)
  `FURTHER_CHANNEL(7)
`endif

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
endmodule
