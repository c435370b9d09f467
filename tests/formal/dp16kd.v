// What the memories of this design use of the ECP5's block RAM, written for proofs from Lattice's
// technical note FPGA-TN-02204 and the pins that Yosys connects: port A writes, port B reads, both
// with words of one width; the word read passes the output register. Words of 36 bits take the
// data pins of both ports; those of 18 and 36 have an enable for each 9 bits at the lowest bits of
// the address.
module DP16KD (
  input ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12, ADA13,
  input DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8,
  input DIA9, DIA10, DIA11, DIA12, DIA13, DIA14, DIA15, DIA16, DIA17,
  input CEA, OCEA, CLKA, WEA, RSTA, CSA0, CSA1, CSA2,
  output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8,
  output DOA9, DOA10, DOA11, DOA12, DOA13, DOA14, DOA15, DOA16, DOA17,
  input ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11, ADB12, ADB13,
  input DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8,
  input DIB9, DIB10, DIB11, DIB12, DIB13, DIB14, DIB15, DIB16, DIB17,
  input CEB, OCEB, CLKB, WEB, RSTB, CSB0, CSB1, CSB2,
  output DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8,
  output DOB9, DOB10, DOB11, DOB12, DOB13, DOB14, DOB15, DOB16, DOB17,
  // Not pins: what the proof looks at.
  input [13:0] WATCHED,
  output [35:0] WATCHED_WORD, READ_WORD
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG";
  parameter REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC";
  parameter ASYNC_RESET_RELEASE = "SYNC";
  parameter CSDECODE_A = "0b000";
  parameter CSDECODE_B = "0b000";
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";
  parameter GSR = "ENABLED";

  localparam WIDTH = DATA_WIDTH_A;
  // Address bits below the word.
  localparam LOW = WIDTH == 36 ? 5 : WIDTH == 18 ? 4 : WIDTH == 9 ? 3 : WIDTH == 4 ? 2 : WIDTH == 2;

  wire [13:0] write_pins = {
    ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0
  };
  wire [13:0] read_pins = {
    ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0
  };
  wire [35:0] given = {
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
    DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
    DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0
  };
  wire [13-LOW:0] write_address = write_pins >> LOW;
  wire [13-LOW:0] read_address = read_pins >> LOW;
  wire [3:0] bytes = WIDTH == 36 ? write_pins[3:0] : WIDTH == 18 ? write_pins[1:0] : 1;
  wire write = CEA && WEA && !{CSA2, CSA1, CSA0};
  wire read = CEB && !WEB && !{CSB2, CSB1, CSB0};

  reg [WIDTH-1:0] words [0:(1<<(14-LOW))-1];
  reg [WIDTH-1:0] word, kept;
  assign WATCHED_WORD = words[WATCHED[13-LOW:0]];
  assign READ_WORD = word;

  integer i;
  always @(posedge CLKA)
    for (i = 0; i < WIDTH; i = i + 1)
      if (write && bytes[i / 9])
        words[write_address][i] <= given[i];
  always @(posedge CLKB) begin
    if (read)
      word <= words[read_address];
    if (OCEB)
      kept <= word;
  end

  wire [35:0] taken = REGMODE_B == "OUTREG" ? kept : word;
  assign {
    DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
    DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0
  } = WIDTH == 36 ? taken[17:0] : 0;
  assign {
    DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9,
    DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
  } = WIDTH == 36 ? taken[35:18] : taken[17:0];

  // What is left out here: two widths, two clocks, resets, another enable of the output register
  // that 36 bits share, the input pins that narrow words leave open.
  always @* begin
    assert (DATA_WIDTH_A == DATA_WIDTH_B && REGMODE_A == REGMODE_B);
    assert (!RSTA && !RSTB && OCEA == OCEB);
  end
endmodule
