// Package failover holds the tests with a PostgreSQL cluster that fails over. It has no code.
//
// A cluster (cluster_linux_test.go) is real: nodes with PostgreSQL and Patroni, etcd, and HAProxy, by the files of
// deploy/patroni with other addresses. Nodes that are to be cut off have network namespaces of their own
// (network_linux_test.go). Two gateways of the built program run on it and are never restarted: one has a list of
// hosts, the other one goes through HAProxy.
//
// A trial hurts the cluster under load (faults_linux_test.go), waits until deliveries are accepted again, heals what
// was hurt, still under load, and compares the new primary with what the senders heard (check_linux_test.go): each
// event that was acknowledged is there, each event has one effect in the database or one webhook-id at the
// destination, and the nodes agree.
//
// TestFailover is the short form. With HOOKONCE_SCALE=full (make scale) all faults are tried, each as often as
// HOOKONCE_FAILOVER_TRIALS says (20), and the figures are written into docs/scale.md.
package failover
