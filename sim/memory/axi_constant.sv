// AXI4 slave that answers at once with random data: what the accelerator's simulation costs
// without a memory model. RVALID is high in every cycle in which beats are owed; writes are taken
// and answered, their data is dropped. `port` is unused.
module axi_constant #(
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
  // Beats left of the burst being answered, and of one that waits.
  logic [8:0] beats, waiting_beats;
  logic [7:0] responses;
  logic [63:0] random;

  wire beat = rvalid && rready;
  wire burst_done = beat && rlast;

  assign rid = 1'b0;
  assign bid = 1'b0;
  assign rresp = 2'b00;
  assign bresp = 2'b00;
  assign rvalid = beats != 0;
  assign rlast = beats == 1;
  assign arready = waiting_beats == 0;
  assign awready = 1'b1;
  assign wready = 1'b1;
  assign bvalid = responses != 0;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      beats <= 0;
      waiting_beats <= 0;
      responses <= 0;
      random <= 64'h9e3779b97f4a7c15;
    end else begin
      // A Galois shift register (x^64 + x^63 + x^61 + x^60 + 1).
      random <= {1'b0, random[63:1]} ^ (random[0] ? 64'hd800000000000000 : 64'h0);
      if (burst_done || beats == 0) begin
        beats <= waiting_beats != 0 ? waiting_beats : arvalid && arready ? 9'(arlen) + 1 : 0;
        waiting_beats <= 0;
      end else begin
        beats <= beats - 9'(beat);
        if (arvalid && arready) waiting_beats <= 9'(arlen) + 1;
      end
      responses <= responses + 8'(wvalid && wlast) - 8'(bvalid && bready);
    end
    rdata <= {DATA_BITS / 64{random}};
  end
endmodule
