package relay

import (
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// stepOver lets refused messages rest.
func (r *relay) stepOver(messages []driver.RefusedMessage) {
	for _, m := range messages {
		r.refused(m.ID, m.Err)
	}
}

// refused lets a message rest after the database refused to change its row.
func (r *relay) refused(id string, err error) {
	rest := r.refusals.Add(id, time.Now())
	r.log.Error("the database refuses to change the row of a message; look for a trigger or a damaged row: hookonce doctor",
		slog.String("message_id", id), slog.String("again_in", rest.String()), slog.Any("error", err))
	if r.o.Refused != nil {
		r.o.Refused(r.dest.Name)
	}
}
