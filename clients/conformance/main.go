// Command conformance shows whether a client of decider, in any language, does
// what the contract asks of clients. It plays both sides of the client: a
// decider that answers as a case says, and a dependency that fails as it says;
// and it judges what came of it.
//
//	conformance -cases ../testdata
//
// It prints {"url":"http://127.0.0.1:PORT"} on standard output and serves until
// standard input ends or it is killed. A runner, which each language writes in
// a few dozen lines, then does for each case:
//
//  1. GET /cases lists the ids.
//  2. POST /cases/{id} starts one. The answer says how to configure the client
//     ("client"), where its decider is ("decider_url"), and which calls to make,
//     one after the other ("calls"), of which each is made to its "url".
//  3. The runner makes the calls, closes the client so that it reports, and POSTs
//     {"results":[…]} to the answer's "results_url": for each call
//     {"status":200,"body":"…"} or {"error":"timeout|canceled|shed|other"}, and
//     "took_ms".
//  4. The answer is {"pass":true} or {"pass":false,"failures":["…"]}.
//
// What a case may say is documented at the types in case.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run serves until in ends.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	directory := flags.String("cases", "../testdata", "directory of the cases")
	listen := flags.String("listen", "127.0.0.1:0", "address of the control server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cases, err := readCases(*directory)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	c := &control{cases: cases, sessions: map[string]*session{}}
	server := &http.Server{Handler: c.routes(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, in) // a parent that ends takes this process with it
		c.close()
		_ = server.Close()
	}()
	if err := json.NewEncoder(out).Encode(map[string]string{"url": "http://" + listener.Addr().String()}); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}
