#!/bin/sh
# A server on a socket in the current directory, its load, a digest of what it then holds, its end.
# The load is commands.resp, then redis-benchmark with 50 connections.
set -eu

redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no \
    --enable-debug-command yes >redis.log &
until redis-cli -s redis.sock PING >/dev/null 2>&1; do
    sleep 0.1
done
redis-cli -s redis.sock --pipe <commands.resp
redis-benchmark -s redis.sock -q -n 1500 \
    -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset >benchmark.log
redis-cli -s redis.sock DBSIZE
redis-cli -s redis.sock DEBUG DIGEST
redis-cli -s redis.sock SHUTDOWN NOSAVE
wait
