// Google verifies the token of a push subscription with its own library, and then checks claims.
const params = {
  audience: "https://hooks.example.com/webhooks/google-pubsub",
  email: "pusher@project.iam.gserviceaccount.com",
};

export default {
  provider: "google-pubsub",
  sdk: "google-auth-library",
  params,
  covered: [],
  documents: (request, key) => ({
    "https://www.googleapis.com/oauth2/v1/certs": JSON.stringify({ [keyId(request)]: key.certificate }),
  }),
  async verify(request) {
    const { OAuth2Client } = await import("google-auth-library");
    const idToken = request.headers.authorization.replace(/^Bearer /, "");
    const client = new OAuth2Client({ transporterOptions: { fetchImplementation: fetch } });
    const ticket = await client.verifyIdToken({ idToken, audience: params.audience });
    const claim = ticket.getPayload();
    return claim.email_verified === true && claim.email === params.email;
  },
};

function keyId(request) {
  try {
    return JSON.parse(Buffer.from(request.headers.authorization.split(/[ .]/)[1], "base64url")).kid;
  } catch {}
}
