package hookpgx

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file is for a DSN with several hosts. pgx dials them in order and takes the first one that accepts
// writes. That is not enough in two cases:
//
//   - An old primary that nobody governs any more accepts writes, but its standbys have gone, so no commit is
//     ever confirmed. A store must leave it for the new primary.
//   - A machine that is gone costs each new connection the whole time to connect.
//
// So a store remembers with which host to begin. That is a preference only: every host is still tried.

// placeKey is where a connection keeps the value of link.begin that stands for its host, in its custom data.
const placeKey = "hookonce.place"

// order makes a new connection begin with the preferred host, and prefers the host that it takes in the end.
func (l *link) order(config *pgx.ConnConfig) {
	groups := hostGroups(config)
	if len(groups) < 2 {
		return
	}
	begin := l.begin.Load()
	at := int(begin % uint64(len(groups)))
	var all []*pgconn.FallbackConfig
	s := &search{}
	for i := range groups {
		for _, host := range groups[(at+i)%len(groups)] {
			all = append(all, host)
			s.add(host, i)
		}
	}
	config.Host, config.Port, config.TLSConfig = all[0].Host, all[0].Port, all[0].TLSConfig
	config.Fallbacks = all[1:]

	lookup, dial, validate := config.LookupFunc, config.DialFunc, config.ValidateConnect
	config.LookupFunc = func(ctx context.Context, name string) ([]string, error) {
		addresses, err := lookup(ctx, name)
		if err != nil {
			addresses = nil // pgx passes the name over
		}
		s.found(addresses)
		return addresses, err
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials(address)
		return dial(ctx, network, address)
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		place := begin + uint64(s.dialed())
		conn.CustomData()[placeKey] = place
		l.begin.CompareAndSwap(begin, place)
		return nil
	}
}

// search tells which host pgx dials for one new connection. pgx first looks up every host in order, even one that
// is given as an address, but no socket. Then it dials all addresses in the same order. A host may have several
// addresses, or none, and two hosts may have the same one.
type search struct {
	mu       sync.Mutex // pgx dials concurrently to cancel a statement
	ways     []*way
	unlooked []*way // those that pgx looks up next, in order
	host     int    // the host that was dialed last
}

// way is a way to connect to a host: with TLS, for example.
type way struct {
	host      int // counted from the host that the connection begins with
	port      uint16
	addresses []string // those not dialed yet
}

func (s *search) add(config *pgconn.FallbackConfig, host int) {
	w := &way{host: host, port: config.Port}
	s.ways = append(s.ways, w)
	if network, address := pgconn.NetworkAddress(config.Host, config.Port); network == "unix" {
		w.addresses = []string{address}
		return
	}
	s.unlooked = append(s.unlooked, w)
}

// found takes the addresses of the next name. They may have ports of their own.
func (s *search) found(addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unlooked) == 0 {
		return // the caller's own look-up
	}
	w := s.unlooked[0]
	s.unlooked = s.unlooked[1:]
	for _, address := range addresses {
		port := strconv.Itoa(int(w.port))
		if host, own, err := net.SplitHostPort(address); err == nil {
			address, port = host, own
		}
		w.addresses = append(w.addresses, net.JoinHostPort(address, port))
	}
}

// dials notes that pgx dials address. A request to cancel a statement dials an address out of turn, and is
// ignored.
func (s *search) dials(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.ways {
		if len(w.addresses) == 0 {
			continue
		}
		if w.addresses[0] == address {
			w.addresses = w.addresses[1:]
			s.host = w.host
		}
		return
	}
}

// dialed returns the host that was dialed last.
func (s *search) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// leave makes new connections begin with the host after that of conn. It reports false if they do not begin
// with the host of conn any more, or if there is no other one.
func (l *link) leave(conn *pgx.Conn) bool {
	place, several := conn.PgConn().CustomData()[placeKey].(uint64)
	return several && l.begin.CompareAndSwap(place, place+1)
}

// hostGroups returns the hosts of config, each with the ways to connect to it: some values of sslmode try
// with TLS and without.
func hostGroups(config *pgx.ConnConfig) (groups [][]*pgconn.FallbackConfig) {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for i, host := range all {
		if i > 0 && host.Host == all[i-1].Host && host.Port == all[i-1].Port {
			groups[len(groups)-1] = append(groups[len(groups)-1], host)
			continue
		}
		groups = append(groups, []*pgconn.FallbackConfig{host})
	}
	return groups
}
