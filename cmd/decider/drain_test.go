package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is still to be told and to be logged has time left when a connection had
// to be cut off.
func TestDrainLeavesTimeForTheRest(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, free := make(chan struct{}), make(chan struct{})
	defer close(free)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-free
	})}
	connections := countConnections(server)
	go server.Serve(listener) //nolint:errcheck // it ends when it is closed
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: d\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	<-entered
	end, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var told strings.Builder
	if err := drain(end, time.Hour, server, connections, slog.New(slog.NewTextHandler(&told, nil))); err != nil {
		t.Error(err)
	}
	if end.Err() != nil {
		t.Error("nothing is left for the rest")
	}
	if !strings.Contains(told.String(), "connections=1\n") {
		t.Errorf("told %q", told.String())
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection was not cut off")
	}
}
