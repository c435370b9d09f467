// The AXI port of the memory, 128 bits wide, as structures of one direction each.
package axi;
  typedef enum logic [1:0] {
    HOST,
    ACCELERATOR,
    READER
  } client_t;

  typedef struct packed {
    logic        valid;
    logic [63:0] addr;
    logic [7:0]  len;
    logic [2:0]  size;
    logic [1:0]  burst;
    logic        id;
  } address_t;

  typedef struct packed {
    address_t     ar;
    logic         rready;
    address_t     aw;
    logic         wvalid;
    logic         wlast;
    logic [15:0]  wstrb;
    logic [127:0] wdata;
    logic         bready;
  } request_t;

  typedef struct packed {
    logic         arready;
    logic         rvalid;
    logic         rlast;
    logic         rid;
    logic [1:0]   rresp;
    logic [127:0] rdata;
    logic         awready;
    logic         wready;
    logic         bvalid;
    logic         bid;
    logic [1:0]   bresp;
  } response_t;

  // An incrementing burst of whole beats.
  function automatic address_t whole_beats(logic valid, logic [63:0] addr, logic [7:0] len);
    return '{valid: valid, addr: addr, len: len, size: 4, burst: 1, id: 0};
  endfunction
endpackage
