package driver

import "context"

// Searched is implemented by stores whose statements may call what others planted in a schema of the search path.
type Searched interface {
	// Planters tells, one by one, who else may create functions in a schema of the session's search path. It returns nil if
	// nobody may.
	Planters(ctx context.Context) ([]string, error)
}

// Replicated is implemented by stores whose database may have standbys.
type Replicated interface {
	// Replication tells whether an acknowledged event survives when a standby takes over. The error matches ErrHidden if
	// the role may not see the standbys.
	Replication(ctx context.Context) (*Replication, error)
}

// Replication is how a database keeps its standbys.
type Replication struct {
	Names       string // of the synchronous standbys, as the server has them; "" if commits wait for none
	Level       string // how far a claim's commit waits for them: on, remote_apply or remote_write
	Standbys    int    // how many are connected
	Synchronous int    // those that are synchronous now; 0 if that is hidden
	Hidden      bool   // the role may not see which standbys are synchronous
	UnusedSlots int    // physical replication slots without a reader: standbys that are missing have such
	Platform    string // the managed server that it is, such as Aurora; "" if it is none that is known
	Storage     string // how the platform's storage keeps commits without a standby; "" if it does not
}
