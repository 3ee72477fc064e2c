// Input for yosys: a 16-bit processor with eight registers, a barrel shifter, a multiplier and a
// four-tap FIR filter as its peripheral. One instruction a cycle; the memories are outside.
module alu (
    input      [3:0]  op,
    input      [15:0] a,
    input      [15:0] b,
    output reg [15:0] y,
    output            zero
);
    wire [31:0] product = a * b;
    always @* begin
        case (op)
            4'h0: y = a + b;
            4'h1: y = a - b;
            4'h2: y = a & b;
            4'h3: y = a | b;
            4'h4: y = a ^ b;
            4'h5: y = a << b[3:0];
            4'h6: y = a >> b[3:0];
            4'h7: y = $signed(a) >>> b[3:0];
            4'h8: y = product[15:0];
            4'h9: y = product[31:16];
            4'ha: y = ($signed(a) < $signed(b)) ? 16'd1 : 16'd0;
            4'hb: y = (a < b) ? 16'd1 : 16'd0;
            default: y = b;
        endcase
    end
    assign zero = (y == 16'd0);
endmodule

module registers (
    input         clk,
    input         we,
    input  [2:0]  wa,
    input  [2:0]  ra,
    input  [2:0]  rb,
    input  [15:0] d,
    output [15:0] a,
    output [15:0] b
);
    reg [15:0] file [0:7];
    always @(posedge clk) if (we) file[wa] <= d;
    assign a = (ra == 3'd0) ? 16'd0 : file[ra];
    assign b = (rb == 3'd0) ? 16'd0 : file[rb];
endmodule

module fir #(parameter TAPS = 4) (
    input             clk,
    input             rst,
    input             valid,
    input      [7:0]  sample,
    input      [31:0] coefficients,
    output reg [17:0] out
);
    reg  [8*TAPS-1:0] line;
    reg  [17:0] sum;
    integer i;
    always @* begin
        sum = 18'd0;
        for (i = 0; i < TAPS; i = i + 1)
            sum = sum + line[8*i +: 8] * coefficients[8*i +: 8];
    end
    always @(posedge clk) begin
        if (rst) begin
            line <= 0;
            out <= 18'd0;
        end else if (valid) begin
            line <= {line[8*TAPS-9:0], sample};
            out <= sum;
        end
    end
endmodule

// Instruction: [15:12] operation, [11:9] destination, [8:6] and [5:3] sources, [5:0] immediate.
// Operations above 4'hb are: c load, d store, e branch if zero, f load immediate.
module cpu (
    input             clk,
    input             rst,
    input      [15:0] instruction,
    input      [15:0] load_data,
    output reg [15:0] pc,
    output     [15:0] address,
    output     [15:0] store_data,
    output            store,
    output     [17:0] filtered
);
    wire [3:0]  op        = instruction[15:12];
    wire        is_load   = (op == 4'hc);
    wire        is_store  = (op == 4'hd);
    wire        is_branch = (op == 4'he);
    wire [15:0] immediate = {{10{instruction[5]}}, instruction[5:0]};
    wire [15:0] a, b, y;
    wire        zero;

    registers file (
        .clk(clk), .we(!is_store && !is_branch && !rst), .wa(instruction[11:9]),
        .ra(instruction[8:6]), .rb(is_store ? instruction[11:9] : instruction[5:3]),
        .d(is_load ? load_data : y), .a(a), .b(b)
    );
    alu alu (
        .op(is_load || is_store ? 4'h0 : op), .a(a),
        .b(is_load || is_store || op == 4'hf ? immediate : b), .y(y), .zero(zero)
    );

    reg [31:0] coefficients;
    always @(posedge clk)
        if (rst) coefficients <= 32'h01020304;
        else if (store && address[15:1] == 15'h7fff)
            coefficients <= address[0] ? {store_data, coefficients[15:0]}
                                       : {coefficients[31:16], store_data};
    fir fir (
        .clk(clk), .rst(rst), .valid(store && address == 16'hfffd),
        .sample(store_data[7:0]), .coefficients(coefficients), .out(filtered)
    );

    assign address    = y;
    assign store_data = b;
    assign store      = is_store;
    always @(posedge clk)
        if (rst) pc <= 16'd0;
        else if (is_branch && a == 16'd0) pc <= pc + immediate;
        else pc <= pc + 16'd1;
endmodule
