package hookonce

import (
	"context"
	"strings"
	"testing"
)

// pointerSender is a Sender that == compares by address. Its field makes addresses differ.
type pointerSender struct{ _ int }

func (*pointerSender) Send(context.Context, *Outgoing) error { return nil }

// holdingSender is a Sender that == compares by the held value.
type holdingSender struct{ held any }

func (holdingSender) Send(context.Context, *Outgoing) error { return nil }

func TestSameDestination(t *testing.T) {
	t.Parallel()
	one, two := &pointerSender{}, &pointerSender{}
	f := SenderFunc(func(context.Context, *Outgoing) error { return nil })
	web := Destination{Name: "a", URL: "http://a/"}
	tests := []struct {
		name         string
		a, b         Destination
		same, target bool
	}{
		{"HTTP", web, web, true, true},
		{"another secret", web, Destination{Name: "a", URL: "http://a/", Secret: "s"}, false, true},
		{"another URL", web, Destination{Name: "a", URL: "http://b/"}, false, false},
		{"HTTP and Sender", web, Destination{Name: "a", Sender: one}, false, false},
		{"Sender and HTTP", Destination{Name: "a", Sender: one}, web, false, false},
		{"Sender", Destination{Name: "a", Sender: one}, Destination{Name: "a", Sender: one}, true, true},
		{"Sender with another rate", Destination{Sender: one}, Destination{Sender: one, Rate: Rate{Count: 1}}, false, true},
		{"another Sender", Destination{Name: "a", Sender: one}, Destination{Name: "a", Sender: two}, false, false},
		{"function", Destination{Sender: f}, Destination{Sender: f}, false, false},
		{"pointer and function", Destination{Sender: one}, Destination{Sender: f}, false, false},
		{"equal values", Destination{Sender: holdingSender{1}}, Destination{Sender: holdingSender{1}}, true, true},
		{"different values", Destination{Sender: holdingSender{1}}, Destination{Sender: holdingSender{"1"}}, false, false},
		{"values that cannot be compared", Destination{Sender: holdingSender{[]int{}}}, Destination{Sender: holdingSender{[]int{}}}, false, false},
	}
	for _, tt := range tests {
		if got := tt.a.same(tt.b); got != tt.same {
			t.Errorf("%s: same returned %t, want %t", tt.name, got, tt.same)
		}
		if got := tt.a.sameTarget(tt.b); got != tt.target {
			t.Errorf("%s: sameTarget returned %t, want %t", tt.name, got, tt.target)
		}
	}
}

func TestDestinationsAreChecked(t *testing.T) {
	t.Parallel()
	sender := &pointerSender{}
	for want, d := range map[string]Destination{
		"":                       {Name: "a", Sender: sender},
		"has no URL":             {Name: "a"},
		"set AllowPrivate":       {Name: "a", URL: "http://127.0.0.1:3000/hooks"},
		"1 to 65535":             {Name: "a", URL: "http://127.0.0.1:99999/"},
		"a fragment":             {Name: "a", URL: "http://a/#canary"},
		"neither a name nor":     {Name: "a", URL: "http://10.0.0.256/"},
		"a URL and a Sender":     {Name: "a", Sender: sender, URL: "http://a/"},
		"AllowPrivate is for":    {Name: "a", Sender: sender, AllowPrivate: true},
		"connections: it is for": {Name: "a", Sender: sender, FreshConnections: true},
		"nil function":           {Name: "a", Sender: SenderFunc(nil)},
		"negative":               {Name: "a", Sender: sender, Timeout: -1},
		"retry":                  {Name: "a", Sender: sender, Retry: Retry{First: 2, Max: 1}},
		"rate":                   {Name: "a", Sender: sender, Rate: Rate{Count: 1}},
	} {
		found := &findings{}
		newDestination(d, nil, found.at("destinations."+d.Name))
		err := found.err()
		switch {
		case want == "" && err != nil:
			t.Errorf("%+v: %v", d, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "destinations.a") || !strings.Contains(err.Error(), want)):
			t.Errorf("%+v: error %v, want one that contains %q", d, err, want)
		case err != nil && strings.Contains(err.Error(), "canary"):
			t.Errorf("the error quotes the secret: %v", err)
		}
	}
}
