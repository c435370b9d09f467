// The top of the in-process simulation: `simulation` with its inputs held in registers.
//
// All logic that depends on top-level inputs is computed in every evaluation of a Verilated model,
// twice a clock cycle. Inputs change only around register accesses, so they are taken over on a
// rising edge of `apply`, and a clock edge costs no more than the logic behind the registers.
module device #(
    parameter int DATA_BITS = 512,
    parameter bit CONSTANT_MEMORY = 0
) (
    input logic ap_clk,
    input logic apply,
    input logic rst_n,
    input logic [63:0] port,
    output logic irq,

    input  logic [11:0] awaddr,
    input  logic        awvalid,
    output logic        awready,
    input  logic [31:0] wdata,
    input  logic [ 3:0] wstrb,
    input  logic        wvalid,
    output logic        wready,
    output logic [ 1:0] bresp,
    output logic        bvalid,
    input  logic        bready,
    input  logic [11:0] araddr,
    input  logic        arvalid,
    output logic        arready,
    output logic [31:0] rdata,
    output logic [ 1:0] rresp,
    output logic        rvalid,
    input  logic        rready
);
  logic        ap_rst_n;
  logic [63:0] memory_port;
  logic [11:0] s_axi_control_awaddr;
  logic        s_axi_control_awvalid;
  logic [31:0] s_axi_control_wdata;
  logic [ 3:0] s_axi_control_wstrb;
  logic        s_axi_control_wvalid;
  logic        s_axi_control_bready;
  logic [11:0] s_axi_control_araddr;
  logic        s_axi_control_arvalid;
  logic        s_axi_control_rready;

  always_ff @(posedge apply) begin
    ap_rst_n <= rst_n;
    memory_port <= port;
    s_axi_control_awaddr <= awaddr;
    s_axi_control_awvalid <= awvalid;
    s_axi_control_wdata <= wdata;
    s_axi_control_wstrb <= wstrb;
    s_axi_control_wvalid <= wvalid;
    s_axi_control_bready <= bready;
    s_axi_control_araddr <= araddr;
    s_axi_control_arvalid <= arvalid;
    s_axi_control_rready <= rready;
  end

  simulation #(
      .DATA_BITS(DATA_BITS),
      .CONSTANT_MEMORY(CONSTANT_MEMORY)
  ) simulation (
      .ap_clk(ap_clk),
      .ap_rst_n(ap_rst_n),
      .memory_port(memory_port),
      .irq(irq),
      .s_axi_control_awaddr(s_axi_control_awaddr),
      .s_axi_control_awprot(3'b000),
      .s_axi_control_awvalid(s_axi_control_awvalid),
      .s_axi_control_awready(awready),
      .s_axi_control_wdata(s_axi_control_wdata),
      .s_axi_control_wstrb(s_axi_control_wstrb),
      .s_axi_control_wvalid(s_axi_control_wvalid),
      .s_axi_control_wready(wready),
      .s_axi_control_bresp(bresp),
      .s_axi_control_bvalid(bvalid),
      .s_axi_control_bready(s_axi_control_bready),
      .s_axi_control_araddr(s_axi_control_araddr),
      .s_axi_control_arprot(3'b000),
      .s_axi_control_arvalid(s_axi_control_arvalid),
      .s_axi_control_arready(arready),
      .s_axi_control_rdata(rdata),
      .s_axi_control_rresp(rresp),
      .s_axi_control_rvalid(rvalid),
      .s_axi_control_rready(s_axi_control_rready)
  );
endmodule
