package send

import (
	"net/http"
	"strings"
	"testing"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00f067aa0ba902b7"
)

func TestTraceContinues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		traceparent []string
		continued   bool
		flags       string
	}{
		"sampled":            {[]string{"00-" + traceID + "-" + parent + "-01"}, true, "01"},
		"not sampled":        {[]string{"00-" + traceID + "-" + parent + "-00"}, true, "00"},
		"later version":      {[]string{"01-" + traceID + "-" + parent + "-01"}, true, "01"},
		"later, longer":      {[]string{"cc-" + traceID + "-" + parent + "-01-what-next"}, true, "01"},
		"later, run on":      {[]string{"cc-" + traceID + "-" + parent + "-01.what"}, false, "00"},
		"invalid version":    {[]string{"ff-" + traceID + "-" + parent + "-01"}, false, "00"},
		"none":               {nil, false, "00"},
		"empty":              {[]string{""}, false, "00"},
		"two":                {[]string{"00-" + traceID + "-" + parent + "-01", "00-" + traceID + "-" + parent + "-01"}, false, "00"},
		"upper case":         {[]string{"00-" + strings.ToUpper(traceID) + "-" + parent + "-01"}, false, "00"},
		"trace id of zeros":  {[]string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, false, "00"},
		"parent of zeros":    {[]string{"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01"}, false, "00"},
		"too long for 00":    {[]string{"00-" + traceID + "-" + parent + "-01-more"}, false, "00"},
		"parts out of place": {[]string{"00-" + traceID[:31] + "-" + parent + "0-01"}, false, "00"},
		"short":              {[]string{"00-" + traceID + "-" + parent}, false, "00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			msg := &Message{ID: "msg_1", Source: "s", EventID: "e", Header: http.Header{"Tracestate": {"vendor=1"}}}
			if tt.traceparent != nil {
				msg.Header["Traceparent"] = tt.traceparent
			}
			first, second := header(msg), header(msg)
			gotID, gotFlags, ok := parseTraceparent(first.Values("Traceparent"))
			if !ok || gotFlags != tt.flags || (gotID == traceID) != tt.continued {
				t.Errorf("traceparent %q, want flags %s, continued: %t", first.Values("Traceparent"), tt.flags, tt.continued)
			}
			if got := first.Get("Tracestate"); (got == "vendor=1") != tt.continued {
				t.Errorf("tracestate %q, trace continued: %t", got, tt.continued)
			}
			againID, _, _ := parseTraceparent(second.Values("Traceparent"))
			if againID != gotID || first.Get("Traceparent") == second.Get("Traceparent") {
				t.Errorf("two attempts: %s and %s, want one trace and two parents", first.Get("Traceparent"), second.Get("Traceparent"))
			}
			if strings.Contains(first.Get("Traceparent"), parent) {
				t.Errorf("the sender's parent was passed on: %s", first.Get("Traceparent"))
			}
		})
	}
}
