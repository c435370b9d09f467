// Reads a range front to back, as fast as the port lets it: an address is offered in every clock
// until the last is accepted, in bursts of 4 KiB, whatever is still to come, and data is always
// taken. What it gets per clock is what the controller can give.
module sequential_reader
  import axi::*;
(
    input  logic        clk,
    // One clock; address and bytes are multiples of 4096.
    input  logic        start,
    input  logic [63:0] address,
    input  logic [63:0] bytes,
    // The last beat has come.
    output logic        done,
    output request_t    request,
    input  response_t   response
);
  localparam int BURST_BYTES = 4096;
  localparam int BEAT_BYTES = 16;

  logic [63:0] next = 0, to_request = 0, to_receive = 0;

  always_comb begin
    request = '0;
    request.ar = whole_beats(to_request != 0, next, 8'(BURST_BYTES / BEAT_BYTES - 1));
    request.rready = 1;
    done = to_receive == 0;
  end

  always_ff @(posedge clk) begin
    if (start) begin
      next <= address;
      to_request <= bytes;
      to_receive <= bytes;
    end else begin
      if (request.ar.valid && response.arready) begin
        next <= next + BURST_BYTES;
        to_request <= to_request - BURST_BYTES;
      end
      if (response.rvalid) to_receive <= to_receive - BEAT_BYTES;
    end
  end
endmodule
