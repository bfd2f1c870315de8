package hookpgx

import (
	"context"
	"net"
	"slices"
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
	for i := range groups {
		all = append(all, groups[(at+i)%len(groups)]...)
	}
	config.Host, config.Port, config.TLSConfig = all[0].Host, all[0].Port, all[0].TLSConfig
	config.Fallbacks = all[1:]

	var mu sync.Mutex
	var dialed []string // addresses, each once; a request to cancel dials later, and concurrently
	dial, validate := config.DialFunc, config.ValidateConnect
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		if !slices.Contains(dialed, address) {
			dialed = append(dialed, address)
		}
		mu.Unlock()
		return dial(ctx, network, address)
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		place := begin + uint64(len(dialed)) - 1
		conn.CustomData()[placeKey] = place
		l.begin.CompareAndSwap(begin, place)
		return nil
	}
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
