package sqlitestore

import "github.com/hookonce/hookonce/driver"

// The numbers of states in the tables: the indexes of driver.EventStates and
// driver.MessageStates.
const (
	statePending = 0
	stateRunning = 1 // of a message: sending
	stateDone    = 2 // of a message: sent
	stateDead    = 3
)

// The names of states. The indexes are the numbers above.
var eventStates, messageStates = driver.EventStates(), driver.MessageStates()
