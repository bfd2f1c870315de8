// Package hooktest helps to test programs that use hookonce.
//
// [NewRequest] makes the request that the provider of a source would send, signed,
// for all providers of the catalog that can be signed for. [Work] runs the handler
// of an event in a transaction of the test's own, which the test looks into and
// rolls back. [Settled] waits until nothing of a source is pending, for tests of a
// whole Inbox. None of them stands for a database: use the one that the program
// uses, or SQLite in a temporary folder.
//
//	func TestInvoicePaid(t *testing.T) {
//		tx, err := pool.Begin(t.Context())
//		if err != nil {
//			t.Fatal(err)
//		}
//		defer tx.Rollback(context.Background())
//		ev := hooktest.NewEvent("stripe", "evt_1", "invoice.paid", `{"id":"evt_1"}`)
//		if r := hooktest.Work(t.Context(), t, tx, mux, ev); r.Err != nil || len(r.Messages) != 1 {
//			t.Errorf("got %+v", r)
//		}
//	}
package hooktest
