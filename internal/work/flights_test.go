package work

import (
	"context"
	"errors"
	"testing"
)

// boarding returns workers that have one place for an Inline handler.
func boarding() *Workers[struct{}] {
	return &Workers[struct{}]{flights: newFlights(), seats: newSeats(1), budget: newBudget(1, 1, never)}
}

func wantEmpty(t *testing.T, w *Workers[struct{}]) {
	t.Helper()
	if w.seats.free != 1 || w.budget.running != 0 {
		t.Errorf("%d workers are free, want 1; %d places in the budget stay taken", w.seats.free, w.budget.running)
	}
}

// A flight joins before the drain and gets to its place after it. There is room, but it must not begin.
func TestBoardAfterDrain(t *testing.T) {
	t.Parallel()
	w := boarding()
	seat, err := w.board(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	w.leave(seat)
	w.flights.drain()
	for range 100 { // of two ready cases, select takes any
		if _, err := w.board(t.Context(), "source"); !errors.Is(err, errDraining) {
			t.Fatalf("board returned the error %v, want %v", err, errDraining)
		}
	}
	wantEmpty(t, w)
}

// A drain turns flights away that wait for a place.
func TestDrainWhileFlightsBoard(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(*Workers[struct{}]) (empty func()){
		"for a worker": func(w *Workers[struct{}]) func() {
			seat := w.seats.wait("another source")
			return func() { w.seats.leave(seat) }
		},
		"in the budget": func(w *Workers[struct{}]) func() {
			w.budget.acquire(context.Background(), true)
			return func() { w.budget.release(true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := boarding()
			empty := fill(w)
			late, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := w.board(late, "source"); !errors.Is(err, context.Canceled) {
				t.Errorf("board without room returned the error %v, want %v", err, context.Canceled)
			}
			boarded := make(chan error, 1)
			go func() {
				_, err := w.board(t.Context(), "source")
				boarded <- err
			}()
			w.flights.drain()
			if err := <-boarded; !errors.Is(err, errDraining) {
				t.Errorf("board returned the error %v, want %v", err, errDraining)
			}
			empty()
			wantEmpty(t, w)
		})
	}
}
