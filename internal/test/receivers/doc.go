// Package receivers holds webhook receivers in Python and Node, and tests that "hookonce probe"
// judges them rightly. Each of python/receiver.py and node/receiver.js is right as it stands, and
// has one fault if the environment variable FAULT names one. The files article_* are receivers as
// articles about webhooks print them, written from their descriptions.
//
// The tests need Node with npm, and Python with FastAPI, uvicorn and asyncpg. As root on Debian they
// install them; elsewhere they fail, and say what to install.
package receivers
