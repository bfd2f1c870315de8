package dbtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// Types of messages of the PostgreSQL protocol, version 3
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
const (
	msgBind          = 'B'
	msgExecute       = 'E'
	msgParse         = 'P'
	msgQuery         = 'Q'
	msgReadyForQuery = 'Z'

	maxMessage = 64 << 20
)

// conversation is one connection through a proxy.
type conversation struct {
	proxy          *Proxy
	client, server net.Conn
	statements     map[string]string // prepared statements: text by name
	bound          string            // text of the statement bound last

	mu   sync.Mutex
	drop *Drop // set when the statement whose reply is to be dropped has been seen
}

// message is one message with its header.
type message struct {
	kind byte // 0 for startup messages, which have no type
	raw  []byte
}

func (m *message) body() []byte {
	if m.kind == 0 {
		return m.raw[4:]
	}
	return m.raw[5:]
}

// read reads one message. Startup messages have no type.
func read(r io.Reader, typed bool) (*message, error) {
	header := make([]byte, 4, 5)
	if typed {
		header = header[:5]
	}
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[len(header)-4:])
	if size < 4 || size > maxMessage {
		return nil, fmt.Errorf("a message has the impossible size of %d bytes", size)
	}
	m := &message{raw: make([]byte, len(header)+int(size)-4)}
	if typed {
		m.kind = header[0]
	}
	copy(m.raw, header)
	_, err := io.ReadFull(r, m.raw[len(header):])
	return m, err
}

// requests forwards the client's messages and reads the statements in them.
func (c *conversation) requests() {
	defer c.server.Close()
	started := false
	for {
		m, err := read(c.client, started)
		if err != nil {
			return
		}
		started = true // DSNs for proxies have sslmode=disable, so there is one startup message
		c.see(m)
		if _, err := c.server.Write(m.raw); err != nil {
			break
		}
	}
	discard(c.client)
}

// see records a statement, and whether its reply is to be dropped, before the statement is
// forwarded.
func (c *conversation) see(m *message) {
	switch m.kind {
	case msgParse: // name, text, types
		fields := bytes.SplitN(m.body(), []byte{0}, 3)
		if len(fields) == 3 {
			c.statements[string(fields[0])] = string(fields[1])
		}
		return
	case msgBind: // portal, name of the statement, values
		fields := bytes.SplitN(m.body(), []byte{0}, 3)
		if len(fields) == 3 {
			c.bound = c.statements[string(fields[1])]
		}
		return
	case msgExecute:
		// This executes the statement bound last.
	case msgQuery:
		c.bound = string(m.body())
	default:
		return
	}
	due := c.proxy.take(func(text string) bool { return strings.Contains(c.bound, text) })
	if due != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop = due
	}
}

func (c *conversation) dropping() *Drop {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop
}

func (c *conversation) silent() bool {
	drop := c.dropping()
	return drop != nil && drop.cut == CutSilence
}

// replies forwards the server's messages up to a reply that is to be dropped.
func (c *conversation) replies() {
	for {
		m, err := read(c.server, true)
		if err != nil {
			return
		}
		drop := c.dropping()
		if drop == nil {
			if _, err := c.client.Write(m.raw); err != nil {
				return
			}
			continue
		}
		if m.kind != msgReadyForQuery {
			continue
		}
		// The server is ready for the next statement, so it has committed.
		if drop.cut == CutReset {
			reset(c.client)
		}
		close(drop.done)
		discard(c.server)
		return
	}
}
