// A copying DMA with the pins of an accelerator of one channel, for tests of the simulation itself.
//
// Reads BEATS beats from SOURCE in bursts of BURST beats (as many under way as the memory takes),
// keeps the exclusive or of all 32-bit words, then writes the last 64 beats read (or BEATS, if
// fewer) to TARGET in bursts of at most 16. Bits of SIN make it break a rule of AXI. DATA_BITS is
// defined by the test.
`ifndef DATA_BITS
`define DATA_BITS 512
`endif

module copier #(
    parameter [63:0] OFFSET = 0  // added to SOURCE and TARGET
) (
    input             ap_clk,
    input             ap_rst_n,
    output            interrupt,
    input      [11:0] s_axi_control_awaddr,
    input      [ 2:0] s_axi_control_awprot,
    input             s_axi_control_awvalid,
    output            s_axi_control_awready,
    input      [31:0] s_axi_control_wdata,
    input      [ 3:0] s_axi_control_wstrb,
    input             s_axi_control_wvalid,
    output            s_axi_control_wready,
    output     [ 1:0] s_axi_control_bresp,
    output            s_axi_control_bvalid,
    input             s_axi_control_bready,
    input      [11:0] s_axi_control_araddr,
    input      [ 2:0] s_axi_control_arprot,
    input             s_axi_control_arvalid,
    output            s_axi_control_arready,
    output reg [31:0] s_axi_control_rdata,
    output reg [ 1:0] s_axi_control_rresp,
    output reg        s_axi_control_rvalid,
    input             s_axi_control_rready,
    output            m_axi_gmem0_arid,
    output reg [63:0] m_axi_gmem0_araddr,
    output reg [ 7:0] m_axi_gmem0_arlen,
    output     [ 2:0] m_axi_gmem0_arsize,
    output     [ 1:0] m_axi_gmem0_arburst,
    output            m_axi_gmem0_arlock,
    output     [ 3:0] m_axi_gmem0_arcache,
    output     [ 2:0] m_axi_gmem0_arprot,
    output     [ 3:0] m_axi_gmem0_arqos,
    output reg        m_axi_gmem0_arvalid,
    input             m_axi_gmem0_arready,
    input             m_axi_gmem0_rid,
    input  [`DATA_BITS-1:0] m_axi_gmem0_rdata,
    input      [ 1:0] m_axi_gmem0_rresp,
    input             m_axi_gmem0_rlast,
    input             m_axi_gmem0_rvalid,
    output            m_axi_gmem0_rready,
    output            m_axi_gmem0_awid,
    output reg [63:0] m_axi_gmem0_awaddr,
    output reg [ 7:0] m_axi_gmem0_awlen,
    output     [ 2:0] m_axi_gmem0_awsize,
    output     [ 1:0] m_axi_gmem0_awburst,
    output            m_axi_gmem0_awlock,
    output     [ 3:0] m_axi_gmem0_awcache,
    output     [ 2:0] m_axi_gmem0_awprot,
    output     [ 3:0] m_axi_gmem0_awqos,
    output reg        m_axi_gmem0_awvalid,
    input             m_axi_gmem0_awready,
    output [`DATA_BITS-1:0] m_axi_gmem0_wdata,
    output [`DATA_BITS/8-1:0] m_axi_gmem0_wstrb,
    output            m_axi_gmem0_wlast,
    output            m_axi_gmem0_wvalid,
    input             m_axi_gmem0_wready,
    input             m_axi_gmem0_bid,
    input      [ 1:0] m_axi_gmem0_bresp,
    input             m_axi_gmem0_bvalid,
    output            m_axi_gmem0_bready
);
  localparam BYTES = `DATA_BITS / 8;
  localparam WITHDRAW = 0, CHANGE = 1, SIZE = 2, EARLY_WLAST = 3, CHANGE_W = 4, REFUSE = 5;

  // Registers. Writes take address and data in one cycle.
  reg [31:0] source_low, source_high, target_low, target_high, beats, burst, strobe, sin;
  reg done, write_response_valid, write_response_bad;
  reg busy;
  reg [31:0] sum, error_beats, error_responses;
  wire write = s_axi_control_awvalid && s_axi_control_wvalid && !write_response_valid;
  wire start = write && s_axi_control_awaddr == 12'h000 && s_axi_control_wdata[0] && !busy;
  assign s_axi_control_awready = write;
  assign s_axi_control_wready = write;
  assign s_axi_control_bvalid = write_response_valid;
  assign s_axi_control_bresp = write_response_bad ? 2'b10 : 2'b00;
  assign s_axi_control_arready = !s_axi_control_rvalid;
  assign interrupt = done;

  integer lane;
  always @(posedge ap_clk) begin
    if (!ap_rst_n) begin
      write_response_valid <= 0;
      s_axi_control_rvalid <= 0;
      burst <= 16;
      strobe <= 32'hffffffff;
      sin <= 0;
    end else begin
      if (write) begin
        write_response_valid <= 1;
        write_response_bad <= s_axi_control_awaddr > 12'h024;
        case (s_axi_control_awaddr)
          12'h004: source_low <= s_axi_control_wdata;
          12'h008: source_high <= s_axi_control_wdata;
          12'h00c: target_low <= s_axi_control_wdata;
          12'h010: target_high <= s_axi_control_wdata;
          12'h014:
          for (lane = 0; lane < 4; lane = lane + 1)
            if (s_axi_control_wstrb[lane])
              beats[lane*8+:8] <= s_axi_control_wdata[lane*8+:8];
          12'h018: burst <= s_axi_control_wdata;
          12'h01c: strobe <= s_axi_control_wdata;
          12'h020: sin <= s_axi_control_wdata;
          default: ;
        endcase
      end else if (s_axi_control_bready) write_response_valid <= 0;
      if (s_axi_control_arvalid && s_axi_control_arready) begin
        s_axi_control_rvalid <= 1;
        s_axi_control_rresp <= 0;
        case (s_axi_control_araddr[8:0])
          9'h000: s_axi_control_rdata <= {30'b0, done, busy};
          9'h014: s_axi_control_rdata <= beats;
          9'h018: s_axi_control_rdata <= burst;
          9'h01c: s_axi_control_rdata <= sum;
          9'h028: s_axi_control_rdata <= error_beats;
          9'h02c: s_axi_control_rdata <= error_responses;
          default: begin
            s_axi_control_rdata <= 0;
            s_axi_control_rresp <= 2'b10;
          end
        endcase
      end else if (s_axi_control_rready) s_axi_control_rvalid <= 0;
    end
  end

  // Reading.
  reg [31:0] to_ask, to_get;
  reg [`DATA_BITS-1:0] buffer[0:63];
  wire r_beat = m_axi_gmem0_rvalid && m_axi_gmem0_rready;
  wire [31:0] ask = to_ask > burst ? burst : to_ask;
  reg withdrawn;
  reg [1:0] phase;
  assign m_axi_gmem0_rready = !(sin[REFUSE] && phase != 0);

  function [31:0] fold(input [`DATA_BITS-1:0] data);
    integer word;
    begin
      fold = 0;
      for (word = 0; word < `DATA_BITS; word = word + 32) fold = fold ^ data[word+:32];
    end
  endfunction

  reader reader (
      .o__valid(m_axi_gmem0_rvalid),
      .o__ready(m_axi_gmem0_rready)
  );

  // Writing.
  reg writing;
  reg [6:0] written, left, to_address;
  reg [3:0] in_burst;
  reg [31:0] unanswered;
  reg [5:0] slot;
  wire [6:0] chunk = to_address > 16 ? 7'd16 : to_address;
  wire aw = m_axi_gmem0_awvalid && m_axi_gmem0_awready;
  wire w = m_axi_gmem0_wvalid && m_axi_gmem0_wready;
  wire b = m_axi_gmem0_bvalid && m_axi_gmem0_bready;
  assign m_axi_gmem0_wvalid = writing && left != 0;
  assign m_axi_gmem0_wdata = buffer[slot] ^ (sin[CHANGE_W] ? phase : 2'd0);
  assign m_axi_gmem0_wlast = sin[EARLY_WLAST] ? in_burst == 3 : in_burst == 15 || left == 1;
  assign m_axi_gmem0_wstrb = {BYTES / 4{strobe[3:0]}};
  assign m_axi_gmem0_bready = 1;
  assign {m_axi_gmem0_arid, m_axi_gmem0_awid, m_axi_gmem0_arlock, m_axi_gmem0_awlock} = 0;
  assign {m_axi_gmem0_arcache, m_axi_gmem0_awcache} = 8'h33;
  assign {m_axi_gmem0_arprot, m_axi_gmem0_awprot} = 0;
  assign {m_axi_gmem0_arqos, m_axi_gmem0_awqos} = 0;
  assign m_axi_gmem0_arburst = 2'b01;
  assign m_axi_gmem0_awburst = 2'b01;
  assign m_axi_gmem0_arsize = sin[SIZE] ? 3'd2 : $clog2(BYTES);
  assign m_axi_gmem0_awsize = $clog2(BYTES);

  always @(posedge ap_clk) begin
    if (!ap_rst_n) begin
      m_axi_gmem0_arvalid <= 0;
      m_axi_gmem0_awvalid <= 0;
      {busy, done, writing, to_ask, to_get, left, to_address, unanswered, withdrawn} <= 0;
      phase <= 0;
    end else begin
      phase <= phase + 1;
      if (start) begin
        busy <= 1;
        done <= 0;
        withdrawn <= 0;
        to_ask <= beats;
        to_get <= beats;
        {sum, error_beats, error_responses} <= 0;
        slot <= 0;
        m_axi_gmem0_araddr <= {source_high, source_low} + OFFSET;
      end
      // A burst every two clocks: the address moves on in between.
      if (m_axi_gmem0_arvalid) begin
        if (m_axi_gmem0_arready) begin
          m_axi_gmem0_arvalid <= 0;
          m_axi_gmem0_araddr <= m_axi_gmem0_araddr + (m_axi_gmem0_arlen + 64'd1) * BYTES;
        end else begin
          if (sin[WITHDRAW] && !withdrawn) begin
            m_axi_gmem0_arvalid <= 0;
            to_ask <= to_ask + m_axi_gmem0_arlen + 1;
            withdrawn <= 1;
          end
          if (sin[CHANGE]) m_axi_gmem0_araddr <= m_axi_gmem0_araddr ^ BYTES;
        end
      end else if (to_ask != 0) begin
        m_axi_gmem0_arvalid <= 1;
        m_axi_gmem0_arlen <= ask - 1;
        to_ask <= to_ask - ask;
      end
      if (r_beat) begin
        sum <= sum ^ fold(m_axi_gmem0_rdata);
        error_beats <= error_beats + (m_axi_gmem0_rresp != 0);
        buffer[slot] <= m_axi_gmem0_rdata;
        slot <= slot + 1;
        to_get <= to_get - 1;
        if (to_get == 1) begin
          writing <= 1;
          left <= beats > 64 ? 64 : beats;
          to_address <= beats > 64 ? 64 : beats;
          slot <= beats > 64 ? slot + 1 : 0;
          in_burst <= 0;
          m_axi_gmem0_awaddr <= {target_high, target_low} + OFFSET;
        end
      end
      if (aw) begin
        m_axi_gmem0_awvalid <= 0;
        m_axi_gmem0_awaddr <= m_axi_gmem0_awaddr + 16 * BYTES;
      end else if (!m_axi_gmem0_awvalid && to_address != 0) begin
        m_axi_gmem0_awvalid <= 1;
        m_axi_gmem0_awlen <= chunk - 1;
        to_address <= to_address - chunk;
      end
      if (w) begin
        slot <= slot + 1;
        in_burst <= in_burst + 1;
        left <= left - 1;
      end
      if (b) error_responses <= error_responses + (m_axi_gmem0_bresp != 0);
      unanswered <= unanswered + aw - b;
      if (writing && left == 0 && to_address == 0 && !m_axi_gmem0_awvalid && unanswered == 0) begin
        writing <= 0;
        busy <= 0;
        done <= 1;
      end
    end
  end
endmodule

// The accelerator's reader has its output stream in a submodule of this name.
module reader (
    input o__valid,
    input o__ready
);
endmodule
