package deadnews

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

// Type is the type of a summary, for the destination.
const Type = "hookonce.dead_letters"

const (
	maxGroups  = 20
	maxSamples = 5
	maxError   = 300 // bytes of an error in a sample
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// summary is the body of the message. It holds no body, no header and no secret.
type summary struct {
	Type  string `json:"type"`
	Since string `json:"since"` // the minute
	Until string `json:"until"`
	Count int    `json:"count"` // dead letters that died in it and are dead still
	More  bool   `json:"more"`  // there are more than Count
	// Groups are the largest groups, OtherGroups the number of the others.
	Groups      []group  `json:"groups"`
	OtherGroups int      `json:"other_groups"`
	Samples     []sample `json:"samples"` // the first of each group
}

type group struct {
	Destination string `json:"destination"` // "" for events that are dead themselves
	Source      string `json:"source"`
	Signature   string `json:"error_signature"`
	Count       int    `json:"count"`
}

type sample struct {
	Destination string `json:"destination"`
	Source      string `json:"source"`
	EventID     string `json:"event_id"`
	MessageID   string `json:"message_id"`
	Error       string `json:"error"`
	FailedAt    string `json:"failed_at"`
}

func sumUp(dead []driver.NewDead, since, until time.Time) *summary {
	s := &summary{
		Type: Type, Since: since.UTC().Format(timeLayout), Until: until.UTC().Format(timeLayout),
		Count: len(dead), More: len(dead) == driver.MaxNewDead, Samples: []sample{},
	}
	place := make(map[group]int)
	first := []*driver.NewDead{}
	for i := range dead {
		of := group{Destination: dead[i].Destination, Source: dead[i].Source, Signature: driver.ErrorSignature(dead[i].Error)}
		at, known := place[of]
		if !known {
			at = len(s.Groups)
			place[of] = at
			s.Groups, first = append(s.Groups, of), append(first, &dead[i])
		}
		s.Groups[at].Count++
	}
	for _, d := range first[:min(len(first), maxSamples)] {
		s.Samples = append(s.Samples, sample{
			Destination: d.Destination, Source: d.Source, EventID: d.EventID, MessageID: d.MessageID, Error: cut(d.Error),
			FailedAt: d.FailedAt.Format(timeLayout),
		})
	}
	slices.SortStableFunc(s.Groups, func(a, b group) int { return cmp.Compare(b.Count, a.Count) })
	if len(s.Groups) > maxGroups {
		s.OtherGroups, s.Groups = len(s.Groups)-maxGroups, s.Groups[:maxGroups]
	}
	return s
}

// cut returns the beginning of an error.
func cut(text string) string {
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// encode returns s as JSON. Texts and numbers always have one.
func encode(s *summary) []byte {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return out
}
