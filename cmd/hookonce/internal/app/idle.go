package app

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// idleConns bounds the connections of a server that wait for their next request. It closes the one that
// has waited longest.
type idleConns struct {
	most int

	mu    sync.Mutex
	order list.List // of net.Conn, the longest idle first
	at    map[net.Conn]*list.Element
}

// track implements http.Server.ConnState.
func (i *idleConns) track(conn net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if element, was := i.at[conn]; was {
		i.order.Remove(element)
		delete(i.at, conn)
	}
	if state != http.StateIdle {
		return
	}
	if i.at == nil {
		i.at = map[net.Conn]*list.Element{}
	}
	i.at[conn] = i.order.PushBack(conn)
	if i.order.Len() > i.most {
		oldest := i.order.Remove(i.order.Front()).(net.Conn)
		delete(i.at, oldest)
		go oldest.Close() // TLS says goodbye, which may block
	}
}
