package sqlitestore

import "github.com/hookonce/hookonce/driver"

// The states as the tables hold them.
const (
	statePending = 0
	stateRunning = 1 // of a message: sending
	stateDone    = 2 // of a message: sent
	stateDead    = 3
	stateSkipped = 4
)

var eventStates = [...]string{
	statePending: driver.StatePending,
	stateRunning: driver.StateRunning,
	stateDone:    driver.StateDone,
	stateDead:    driver.StateDead,
	stateSkipped: driver.StateSkipped,
}

var messageStates = [...]string{
	statePending: driver.StatePending,
	stateRunning: driver.StateSending,
	stateDone:    driver.StateSent,
	stateDead:    driver.StateDead,
	stateSkipped: driver.StateSkipped,
}
