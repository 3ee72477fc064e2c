//! The programs, and what each does.

/// A program: its name, its requirements, and shell scripts that run in their own folder: the
/// measured one, and one that prepares it, which runs once without a library.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static str,
    pub(crate) prepare: &'static str,
    pub(crate) script: &'static str,
}

/// Returns a program without other requirements.
const fn program(name: &'static str, script: &'static str) -> Program {
    Program { name, needs: name, prepare: "", script }
}

/// Threads that pass strings of many sizes to each other and store them in maps.
pub(crate) const THREADS: &str = r#"
use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::thread;
fn main() {
    let mut ends = Vec::new();
    for seed in 1..5usize {
        let (sender, receiver) = sync_channel::<Vec<String>>(16);
        ends.push(thread::spawn(move || {
            for round in 0..400 {
                let strings = (0..500).map(|n| "x".repeat(n * seed * 7 % 400) + &(round * n).to_string());
                sender.send(strings.collect()).expect("the other thread lives");
            }
            0
        }));
        ends.push(thread::spawn(move || {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for strings in receiver {
                for string in strings { *counts.entry(string).or_default() += 1; }
                if counts.len() > 40_000 { counts.clear(); }
            }
            counts.values().sum()
        }));
    }
    let total: usize = ends.into_iter().map(|end| end.join().expect("it ends")).sum();
    println!("{total}");
}
"#;

pub(crate) const PROGRAMS: &[Program] = &[
    program(
        "gawk",
        "gawk 'BEGIN { for (i = 0; i < 400000; i++) a[i % 50000] = a[i % 50000] i; print length(a[7]) }'",
    ),
    program(
        "perl",
        "perl -e 'my %h; $h{$_ % 70001} .= \"x$_\" for 1..900000; print length($h{9})'",
    ),
    program(
        "python3",
        "python3 -c 'import json; d = {str(i): [i, str(i)] * 4 for i in range(150000)}; print(len(json.loads(json.dumps(d))))'",
    ),
    program("git", "git -C \"$WORKSPACE\" log --stat -n 40"),
    program(
        "sqlite3",
        "sqlite3 :memory: 'create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n where x < 300000) insert into t select x, hex(x * 7) from n; create index i on t(b); select count(*), max(b) from t;'",
    ),
    program(
        "gs",
        "printf '%%!PS\n/Times-Roman findfont 20 scalefont setfont 1 1 80 { 9 mul 72 exch moveto (pagewise) show } for showpage\n' | gs -q -dNOPAUSE -dBATCH -sDEVICE=ppmraw -r300 -sOutputFile=- -",
    ),
    program(
        "g++",
        "printf '#include <map>\n#include <regex>\n#include <iostream>\nint main() { std::map<std::string, int> m; std::cout << std::regex_match(\"ab\", std::regex(\"a.\")) << m.size(); }' | g++ -O1 -c -x c++ -o /dev/null -",
    ),
    program("sort", "seq 300000 | sort -R --random-source=/dev/zero"),
    program(
        "lua5.4",
        "lua5.4 -e 'local t = {} for i = 1, 900000 do t[i % 60000] = {i, tostring(i), {x = i}} end local s = {} for i = 1, 59999 do s[#s + 1] = t[i][2] .. i end print(#table.concat(s))'",
    ),
    program(
        "ruby",
        "ruby -e 'h = {}; 400000.times { |i| h[\"k#{i % 60000}\"] = (h[\"k#{i % 60000}\"] || \"\")[0, 40] + i.to_s }; a = h.map { |k, v| [v, k] }.sort; puts a.map(&:first).join(\",\").split(\",\").map(&:to_i).sum; puts (1..200000).map { |i| {id: i, name: \"n#{i}\"} }.group_by { |x| x[:id] % 97 }.size'",
    ),
    program(
        "swipl",
        "swipl -g 'forall(between(1, 300000, I), (K is I mod 5000, (I > 5000 -> retract(f(K, _)) ; true), assertz(f(K, foo(I, bar))))), numlist(1, 300000, L), findall(X-Y, (member(X, L), Y is X mod 97), P), keysort(P, S), length(S, N), print(N), halt' -g 'dynamic f/2'",
    ),
    program(
        "node",
        "node -e 'const zlib = require(\"zlib\"); let t = 0; for (let i = 0; i < 300; i++) t += zlib.inflateSync(zlib.deflateSync(Buffer.alloc(1000 + i * 97, i))).length; const b = []; for (let i = 0; i < 200000; i++) b[i % 5000] = Buffer.allocUnsafeSlow(50 + i % 3000); console.log(t, b.length)'",
    ),
    program(
        "Rscript",
        "Rscript -e 'x <- list(); for (i in 1:60000) x[[i]] <- paste0(\"k\", i, i * 7); d <- data.frame(a = (1:200000) %% 997, b = rep(letters[1:20], 10000)); print(aggregate(a ~ b, d, mean)[1, 2]); print(length(unique(unlist(strsplit(unlist(x), \"\")))))'",
    ),
    program(
        "dot",
        "awk 'BEGIN { print \"digraph g {\"; for (i = 1; i < 170; i++) { s = (s * 75 + 74) % 65537; print \"n\" i \" -> n\" s % i \"; n\" s % 170 \" -> n\" i } print \"}\" }' | dot -Tsvg",
    ),
    program(
        "clang++",
        "printf '#include <map>\n#include <regex>\n#include <iostream>\nint main() { std::map<std::string, int> m; std::cout << std::regex_match(\"ab\", std::regex(\"a.\")) << m.size(); }' | clang++ -O1 -c -x c++ -o /dev/null -",
    ),
    program(
        "yosys",
        "printf 'module c(input clk, input [15:0] a, input [15:0] b, output reg [31:0] o);\nreg [15:0] r[0:31];\nalways @(posedge clk) begin r[a[4:0]] <= a * b + r[b[4:0]]; o <= r[a[9:5]] * r[b[9:5]]; end\nendmodule\n' >c.v && yosys -q -p 'read_verilog c.v; synth -top c'",
    ),
    Program {
        name: "300 starts",
        needs: "true",
        prepare: "",
        script: "n=0; while [ $n -lt 300 ]; do env true; n=$((n + 1)); done",
    },
    Program {
        name: "redis",
        needs: "redis-benchmark",
        prepare: "",
        script: "redis-server --port 0 --unixsocket r.sock --save '' --dir . >/dev/null & server=$!; until redis-cli -s r.sock ping >/dev/null 2>&1; do kill -0 $server || exit 1; sleep 0.05; done; redis-benchmark -s r.sock -q -c 20 -n 60000 -r 50000 -d 200 -t set,get,incr,lpush,sadd,hset,zadd,lrange_100; redis-cli -s r.sock shutdown nosave; wait $server",
    },
    Program {
        name: "cargo build",
        needs: "cargo",
        prepare: "mkdir -p crate/src && printf '[package]\nname = \"a\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n' > crate/Cargo.toml && printf '%s' \"$THREADS\" > crate/src/main.rs",
        script: "cd crate && rm -rf built && cargo build -q --offline --target-dir built && built/debug/a",
    },
    Program {
        name: "threads (Rust)",
        needs: "rustc",
        prepare: "printf '%s' \"$THREADS\" > threads.rs && rustc -O threads.rs -o threads",
        script: "./threads",
    },
];
