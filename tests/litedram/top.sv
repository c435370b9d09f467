// The accelerator on the AXI port of LiteDRAM's core, with LiteDRAM's SDRAM model behind it.
//
// Three clients take turns at the one port: the host, which fills and reads the memory through
// pins of this module, the accelerator, and a reader that does nothing but read. All have the
// controller's clock.
module top #(
    parameter int MEMORY_BYTES = 1 << 27
) (
    input  logic         clk,
    input  logic         rst_n,
    // Whose the port is.
    input  logic [  1:0] client,
    // Of `port_monitor`.
    input  logic         clear,
    output logic [ 63:0] first_address,
    output logic [ 63:0] first_data,
    output logic [ 63:0] last_data,
    output logic [ 63:0] data_beats,
    output logic         busy,
    output logic         beyond,

    input  logic         reader_start,
    input  logic [ 63:0] reader_address,
    input  logic [ 63:0] reader_bytes,
    output logic         reader_done,

    input  logic         host_arvalid,
    output logic         host_arready,
    input  logic [ 63:0] host_araddr,
    input  logic [  7:0] host_arlen,
    output logic         host_rvalid,
    output logic         host_rlast,
    output logic [  1:0] host_rresp,
    output logic [127:0] host_rdata,
    input  logic         host_rready,
    input  logic         host_awvalid,
    output logic         host_awready,
    input  logic [ 63:0] host_awaddr,
    input  logic [  7:0] host_awlen,
    input  logic         host_wvalid,
    output logic         host_wready,
    input  logic         host_wlast,
    input  logic [ 15:0] host_wstrb,
    input  logic [127:0] host_wdata,
    output logic         host_bvalid,
    output logic [  1:0] host_bresp,
    input  logic         host_bready,

    // Wishbone, to the controller's registers; word addresses.
    input  logic         wb_cyc,
    input  logic         wb_we,
    input  logic [ 29:0] wb_adr,
    input  logic [ 31:0] wb_dat_w,
    output logic [ 31:0] wb_dat_r,
    output logic         wb_ack,
    output logic         wb_err,

    output logic         irq,
    input  logic [ 11:0] s_axi_control_awaddr,
    input  logic         s_axi_control_awvalid,
    output logic         s_axi_control_awready,
    input  logic [ 31:0] s_axi_control_wdata,
    input  logic         s_axi_control_wvalid,
    output logic         s_axi_control_wready,
    output logic [  1:0] s_axi_control_bresp,
    output logic         s_axi_control_bvalid,
    input  logic         s_axi_control_bready,
    input  logic [ 11:0] s_axi_control_araddr,
    input  logic         s_axi_control_arvalid,
    output logic         s_axi_control_arready,
    output logic [ 31:0] s_axi_control_rdata,
    output logic [  1:0] s_axi_control_rresp,
    output logic         s_axi_control_rvalid,
    input  logic         s_axi_control_rready
);
  import axi::*;

  request_t host, accelerator, reader, request;
  response_t response, host_response, accelerator_response, reader_response;

  always_comb begin
    case (client)
      ACCELERATOR: request = accelerator;
      READER: request = reader;
      default: request = host;
    endcase
    host_response = client == HOST ? response : '0;
    accelerator_response = client == ACCELERATOR ? response : '0;
    reader_response = client == READER ? response : '0;
  end

  always_comb begin
    host = '0;
    host.ar = whole_beats(host_arvalid, host_araddr, host_arlen);
    host.rready = host_rready;
    host.aw = whole_beats(host_awvalid, host_awaddr, host_awlen);
    host.wvalid = host_wvalid;
    host.wlast = host_wlast;
    host.wstrb = host_wstrb;
    host.wdata = host_wdata;
    host.bready = host_bready;
  end
  assign host_arready = host_response.arready;
  assign host_rvalid = host_response.rvalid;
  assign host_rlast = host_response.rlast;
  assign host_rresp = host_response.rresp;
  assign host_rdata = host_response.rdata;
  assign host_awready = host_response.awready;
  assign host_wready = host_response.wready;
  assign host_bvalid = host_response.bvalid;
  assign host_bresp = host_response.bresp;

  sequential_reader sequential_reader (
      .clk,
      .start(reader_start),
      .address(reader_address),
      .bytes(reader_bytes),
      .done(reader_done),
      .request(reader),
      .response(reader_response)
  );

  port_monitor #(
      .MEMORY_BYTES(MEMORY_BYTES)
  ) monitor (
      .clk,
      .clear,
      .request,
      .response,
      .first_address,
      .first_data,
      .last_data,
      .data_beats,
      .busy,
      .beyond
  );

  unembed head (
      .ap_clk(clk),
      .ap_rst_n(rst_n),
      .interrupt(irq),
      .s_axi_control_awprot(3'b0),
      .s_axi_control_arprot(3'b0),
      .s_axi_control_wstrb(4'hf),
      .m_axi_gmem0_arvalid(accelerator.ar.valid),
      .m_axi_gmem0_araddr(accelerator.ar.addr),
      .m_axi_gmem0_arlen(accelerator.ar.len),
      .m_axi_gmem0_arsize(accelerator.ar.size),
      .m_axi_gmem0_arburst(accelerator.ar.burst),
      .m_axi_gmem0_arid(accelerator.ar.id),
      .m_axi_gmem0_arlock(),
      .m_axi_gmem0_arcache(),
      .m_axi_gmem0_arprot(),
      .m_axi_gmem0_arqos(),
      .m_axi_gmem0_arready(accelerator_response.arready),
      .m_axi_gmem0_rvalid(accelerator_response.rvalid),
      .m_axi_gmem0_rlast(accelerator_response.rlast),
      .m_axi_gmem0_rid(accelerator_response.rid),
      .m_axi_gmem0_rresp(accelerator_response.rresp),
      .m_axi_gmem0_rdata(accelerator_response.rdata),
      .m_axi_gmem0_rready(accelerator.rready),
      .m_axi_gmem0_awvalid(accelerator.aw.valid),
      .m_axi_gmem0_awaddr(accelerator.aw.addr),
      .m_axi_gmem0_awlen(accelerator.aw.len),
      .m_axi_gmem0_awsize(accelerator.aw.size),
      .m_axi_gmem0_awburst(accelerator.aw.burst),
      .m_axi_gmem0_awid(accelerator.aw.id),
      .m_axi_gmem0_awlock(),
      .m_axi_gmem0_awcache(),
      .m_axi_gmem0_awprot(),
      .m_axi_gmem0_awqos(),
      .m_axi_gmem0_awready(accelerator_response.awready),
      .m_axi_gmem0_wvalid(accelerator.wvalid),
      .m_axi_gmem0_wlast(accelerator.wlast),
      .m_axi_gmem0_wstrb(accelerator.wstrb),
      .m_axi_gmem0_wdata(accelerator.wdata),
      .m_axi_gmem0_wready(accelerator_response.wready),
      .m_axi_gmem0_bvalid(accelerator_response.bvalid),
      .m_axi_gmem0_bid(accelerator_response.bid),
      .m_axi_gmem0_bresp(accelerator_response.bresp),
      .m_axi_gmem0_bready(accelerator.bready),
      .*
  );

  // The port is as wide as its memory needs; a wider address is cut, which `beyond` reports.
  /* verilator lint_off WIDTH */
  litedram_core core (
      .clk,
      .sim_trace(1'b0),
      .init_done(),
      .init_error(),
      .user_clk(),
      .user_rst(),
      .user_port_0_arvalid(request.ar.valid),
      .user_port_0_araddr(request.ar.addr),
      .user_port_0_arlen(request.ar.len),
      .user_port_0_arsize(request.ar.size),
      .user_port_0_arburst(request.ar.burst),
      .user_port_0_arid(request.ar.id),
      .user_port_0_arready(response.arready),
      .user_port_0_rvalid(response.rvalid),
      .user_port_0_rlast(response.rlast),
      .user_port_0_rid(response.rid),
      .user_port_0_rresp(response.rresp),
      .user_port_0_rdata(response.rdata),
      .user_port_0_rready(request.rready),
      .user_port_0_awvalid(request.aw.valid),
      .user_port_0_awaddr(request.aw.addr),
      .user_port_0_awlen(request.aw.len),
      .user_port_0_awsize(request.aw.size),
      .user_port_0_awburst(request.aw.burst),
      .user_port_0_awid(request.aw.id),
      .user_port_0_awready(response.awready),
      .user_port_0_wvalid(request.wvalid),
      .user_port_0_wlast(request.wlast),
      .user_port_0_wstrb(request.wstrb),
      .user_port_0_wdata(request.wdata),
      .user_port_0_wready(response.wready),
      .user_port_0_bvalid(response.bvalid),
      .user_port_0_bid(response.bid),
      .user_port_0_bresp(response.bresp),
      .user_port_0_bready(request.bready),
      .wb_ctrl_cyc(wb_cyc),
      .wb_ctrl_stb(wb_cyc),
      .wb_ctrl_we(wb_we),
      .wb_ctrl_adr(wb_adr),
      .wb_ctrl_dat_w(wb_dat_w),
      .wb_ctrl_dat_r(wb_dat_r),
      .wb_ctrl_sel(4'hf),
      .wb_ctrl_cti(3'b0),
      .wb_ctrl_bte(2'b0),
      .wb_ctrl_ack(wb_ack),
      .wb_ctrl_err(wb_err)
  );
  /* verilator lint_on WIDTH */
endmodule
