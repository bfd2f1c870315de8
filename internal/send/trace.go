package send

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

const (
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
)

// maxTracestate is the longest tracestate that is passed on, as W3C Trace Context asks for at least.
const maxTracestate = 512

// setTrace makes the attempt a span in the trace of the delivery (W3C Trace Context): it keeps
// trace id, flags and tracestate, and sets a new parent id. A delivery without a valid traceparent
// gets a new, unsampled trace, which all messages of the event share. If the attempt has a span
// already, its traceparent stands.
func setTrace(h http.Header, msg *Message) {
	if len(strings.Join(h.Values(headerTracestate), ",")) > maxTracestate {
		h.Del(headerTracestate)
	}
	if msg.Traceparent != "" {
		SetTraceparent(h, msg.Traceparent)
		return
	}
	traceID, flags, ok := parseTraceparent(h.Values(headerTraceparent))
	if !ok {
		sum := sha256.Sum256([]byte("trace\x00" + msg.Source + "\x00" + msg.EventID))
		traceID, flags = hex.EncodeToString(sum[:16]), "00"
		h.Del(headerTracestate)
	}
	var span [8]byte
	_, _ = rand.Read(span[:]) // never fails, see its documentation
	span[7] |= 1              // an all-zero parent id is invalid
	h.Set(headerTraceparent, "00-"+traceID+"-"+hex.EncodeToString(span[:])+"-"+flags)
}

// Traceparent returns the traceparent of a header in the form of version 00; "" if there is none, or
// none that is valid.
func Traceparent(h http.Header) string {
	traceID, flags, ok := parseTraceparent(h.Values(headerTraceparent))
	if !ok {
		return ""
	}
	return "00-" + traceID + "-" + h.Get(headerTraceparent)[36:52] + "-" + flags
}

// SetTraceparent replaces the traceparent of a header, by one of version 00; "" changes nothing. It removes the
// tracestate unless the new one continues the trace of the old one.
func SetTraceparent(h http.Header, traceparent string) {
	if traceparent == "" {
		return
	}
	if before := Traceparent(h); before == "" || before[:35] != traceparent[:35] {
		h.Del(headerTracestate)
	}
	h.Set(headerTraceparent, traceparent)
}

// ValidTraceparent reports whether a text is a traceparent of version 00.
func ValidTraceparent(text string) bool {
	_, _, ok := parseTraceparent([]string{text})
	return ok && strings.HasPrefix(text, "00-")
}

// SampledTrace returns the trace id of a traceparent of version 00 if the trace is sampled, otherwise
// "".
func SampledTrace(traceparent string) string {
	const size = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(traceparent) != size {
		return ""
	}
	if flags, err := strconv.ParseUint(traceparent[size-2:], 16, 8); err != nil || flags&1 == 0 {
		return ""
	}
	return traceparent[3:35]
}

// parseTraceparent reads a traceparent of version 00, or the part of a later version that version
// 00 defines.
func parseTraceparent(values []string) (traceID, flags string, ok bool) {
	const size = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(values) != 1 || len(values[0]) < size {
		return "", "", false
	}
	v, rest := values[0][:size], values[0][size:]
	parts := strings.Split(v, "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return "", "", false
	}
	for _, part := range parts {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return "", "", false
		}
	}
	version, traceID, parent, flags := parts[0], parts[1], parts[2], parts[3]
	known := version == "00" && rest == "" || version > "00" && version < "ff" && (rest == "" || rest[0] == '-')
	if !known || strings.Trim(traceID, "0") == "" || strings.Trim(parent, "0") == "" {
		return "", "", false
	}
	return traceID, flags, true
}
