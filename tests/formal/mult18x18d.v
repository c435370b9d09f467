// What the multipliers of this design use of the ECP5's MULT18X18D, written for proofs from
// Lattice's technical note FPGA-TN-02205: signed or unsigned factors, a register on each side of
// the multiplier and one behind it, each of which is there if a clock is named for it.
module MULT18X18D (
  input CLK0, CE0, RST0, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17,
  input B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17,
  input C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17,
  output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17,
  output P18, P19, P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
  parameter REG_INPUTA_CLK = "NONE";
  parameter REG_INPUTB_CLK = "NONE";
  parameter REG_PIPELINE_CLK = "NONE";
  parameter REG_OUTPUT_CLK = "NONE";

  wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  // With its sign, which is a bit of its own: unsigned factors have one, too.
  wire signed [18:0] a_given = {SIGNEDA & a[17], a};
  wire signed [18:0] b_given = {SIGNEDB & b[17], b};
  reg signed [18:0] a_kept, b_kept;
  reg signed [37:0] product_kept, result_kept;

  wire signed [18:0] a_used = REG_INPUTA_CLK == "NONE" ? a_given : a_kept;
  wire signed [18:0] b_used = REG_INPUTB_CLK == "NONE" ? b_given : b_kept;
  wire signed [37:0] product = a_used * b_used;
  wire signed [37:0] piped = REG_PIPELINE_CLK == "NONE" ? product : product_kept;
  wire signed [37:0] result = REG_OUTPUT_CLK == "NONE" ? piped : result_kept;

  always @(posedge CLK0)
    if (RST0) begin
      a_kept <= 0;
      b_kept <= 0;
      product_kept <= 0;
      result_kept <= 0;
    end else if (CE0) begin
      a_kept <= a_given;
      b_kept <= b_given;
      product_kept <= product;
      result_kept <= piped;
    end

  assign {
    P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
  } = result[35:0];

  // The other factors come from the block beside this one.
  always @* assert (!SOURCEA && !SOURCEB);
endmodule
