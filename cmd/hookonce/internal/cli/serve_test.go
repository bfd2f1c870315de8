package cli_test

import ()
