package main

import (
	"log/slog"
	"net"
	"os"
)

// notify tells systemd of a turn, READY=1 or STOPPING=1, where it waits for that
// (Type=notify): in a datagram to the socket that the environment names. A name
// that begins with @ is in the abstract namespace, as in package net.
func notify(state string, log *slog.Logger) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", socket)
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		log.Warn("systemd cannot be told", "of", state, "error", err)
	}
}
