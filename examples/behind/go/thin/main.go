// Command thin is an application behind hookonce that gets thin events: they name an object and hold no
// data. It fetches the object, and stores its present state once for each event.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// event is a thin event in the shape of Stripe's.
type event struct {
	Context string `json:"context"` // the account of the object; "" for the key's own
	Object  struct {
		ID  string `json:"id"`
		URL string `json:"url"` // a path below the API
	} `json:"related_object"` // null for an event about no object
}

// maxState bounds the state of an object, in bytes.
const maxState = 16 << 20

// client follows no redirect: the key goes to the API alone.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// fetch gets the present state of the object of an event; "null" if it was deleted.
func fetch(ctx context.Context, ev *event) ([]byte, error) {
	if !strings.HasPrefix(ev.Object.URL, "/") {
		return nil, fmt.Errorf("%q is no path", ev.Object.URL)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // less than the destination's timeout
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("API_URL")+ev.Object.URL, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
	for name, value := range map[string]string{"Stripe-Version": os.Getenv("API_VERSION"), "Stripe-Context": ev.Context} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return []byte("null"), nil
	default:
		return nil, fmt.Errorf("the API answers %s", answer.Status)
	}
	state, err := io.ReadAll(io.LimitReader(answer.Body, maxState+1))
	if len(state) > maxState {
		err = fmt.Errorf("the object has more than %d bytes", maxState)
	}
	return state, err
}

// once stores the state of an object, unless the event with this id has done so.
func once(ctx context.Context, pool *pgxpool.Pool, id string, state []byte) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		first, err := tx.Exec(ctx, "INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING", id)
		if err != nil || first.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO work VALUES ($1, $2)", id, state)
		return err
	})
}

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	hook, err := standardwebhooks.NewWebhook(os.Getenv("APP_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || hook.Verify(body, r.Header) != nil {
			http.Error(w, "the signature does not fit", http.StatusUnauthorized)
			return
		}
		var ev event
		if err := json.Unmarshal(body, &ev); err != nil {
			http.Error(w, "no thin event", http.StatusBadRequest)
			return
		}
		if ev.Object.URL == "" {
			return // 200: there is nothing to fetch
		}
		state, err := fetch(r.Context(), &ev) // before the transaction, which would wait for it
		if err == nil {
			err = once(r.Context(), pool, r.Header.Get("webhook-id"), state)
		}
		if err != nil {
			log.Print(err)
			http.Error(w, "not done", http.StatusServiceUnavailable) // hookonce sends it again
		}
	})
	address := "127.0.0.1:" + os.Getenv("PORT")
	log.Print("http://", address)
	log.Fatal(http.ListenAndServe(address, nil))
}
