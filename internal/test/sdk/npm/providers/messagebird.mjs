import { createSecretKey } from "node:crypto";

const address = (request) => request.url + (request.query ? `?${request.query}` : "");

const jwt = {
  provider: "messagebird",
  sdk: "messagebird",
  async verify(request, key) {
    const { verify } = (await import("messagebird/lib/webhook-signature-jwt.js")).default;
    const token = request.headers["messagebird-signature-jwt"];
    return await verify(address(request), Buffer.from(request.body), token, createSecretKey(Buffer.from(key.secret)));
  },
};

const old = async () => (await import("messagebird/lib/signature.js")).default;
const received = ({ headers, query, body }) => ({ headers, query: Object.fromEntries(new URLSearchParams(query)), body });

const hmac = {
  provider: "messagebird",
  scheme: "hmac",
  event: { id: "query:id + query:status" }, // of a status report, which has no body
  sdk: "messagebird",
  unchecked: {
    "value space in query v": "it signs a space as %20, the SDKs for Go, PHP and Python as +",
    "value non-ASCII in query v": "it signs a space as %20, the SDKs for Go, PHP and Python as +",
    "value markup in query v": "it signs ' as it is, the SDKs for Go, PHP and Python as %27",
    "value repeated in query v": "it joins repeated parameters",
  },
  async verify(request, key) {
    return (await old()).validate(received(request), key.secret);
  },
  async sign(request, key) {
    const headers = { "messagebird-request-timestamp": String(Math.floor(request.now / 1000)) };
    const signature = (await old()).generate(received({ ...request, headers }), key.secret);
    return { headers: { ...headers, "messagebird-signature": signature.toString("base64") } };
  },
};

// No value has a space: this SDK signs it as %20, and those for Go, PHP and Python sign it as a '+'.
const query = "status=delivered&id=a%2Fb&recipient=31612345678&statusDatetime=2019-01-11T09%3A17%3A11%2B00%3A00";

// From the tests of the SDK.
const vectors = [
  {
    name: "sdk-test",
    key: { secret: "PlLrKaqvZNRR5zAjm42ZT6q1SQxgbbGd" },
    request: {
      query:
        "id=eef0ab57a9e049be946f3821568c2b2e&mccmnc=20408&ported=1&recipient=31612345678&reference=FOO&status=delivered" +
        "&statusDatetime=2019-01-11T09%3A17%3A11%2B00%3A00",
      headers: {
        "messagebird-request-timestamp": "1547198231",
        "messagebird-signature": "KVBdcVdz2lYMwcBLZCRITgxUfA/WkwSi+T3Wxl2HL6w=",
      },
      body: "",
      now: 1547198231000,
    },
  },
];

export default [jwt, { ...jwt, variant: "query", query }, { ...hmac, vectors }, { ...hmac, variant: "query", query }];
