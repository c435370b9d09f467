// Counts what goes over an AXI port.
module port_monitor
  import axi::*;
#(
    parameter int MEMORY_BYTES = 1 << 27
) (
    input  logic        clk,
    // In the next clock all counts begin anew; that clock has the number 1.
    input  logic        clear,
    input  request_t    request,
    input  response_t   response,
    // Numbers of clocks: the first with an address of a read offered, the first and the last with a
    // beat of read data; 0 if there was none.
    output logic [63:0] first_address,
    output logic [63:0] first_data,
    output logic [63:0] last_data,
    output logic [63:0] data_beats,
    // A read or a write is offered, or under way.
    output logic        busy,
    // An address was offered that is not in the memory.
    output logic        beyond
);
  logic [63:0] now = 1;
  int reads = 0, writes = 0;

  wire beat = response.rvalid && request.rready;

  always_ff @(posedge clk) begin
    now <= clear ? 1 : now + 1;
    if (clear) begin
      first_address <= 0;
      first_data <= 0;
      last_data <= 0;
      data_beats <= 0;
      beyond <= 0;
    end else begin
      if (request.ar.valid && first_address == 0) first_address <= now;
      if (beat) begin
        if (first_data == 0) first_data <= now;
        last_data <= now;
        data_beats <= data_beats + 1;
      end
      if (request.ar.valid && request.ar.addr >= 64'(MEMORY_BYTES)) beyond <= 1;
      if (request.aw.valid && request.aw.addr >= 64'(MEMORY_BYTES)) beyond <= 1;
    end
    reads <= reads + 32'(request.ar.valid && response.arready) - 32'(beat && response.rlast);
    writes <= writes + 32'(request.aw.valid && response.awready)
        - 32'(response.bvalid && request.bready);
  end
  assign busy = request.ar.valid || request.aw.valid || request.wvalid || reads != 0 || writes != 0;
endmodule
