export default {
  provider: "zoom",
  sdk: "@zoom/rivet",
  ascii: "it writes the JSON again before it checks it",
  unchecked: {
    age: "the package does not compare the time with its clock",
    "value repeated in the body": "it writes the JSON again before it checks it",
  },
  async verify(request, key) {
    const { AwsLambdaReceiver } = await import("@zoom/rivet/users");
    const receiver = new AwsLambdaReceiver({ webhooksSecretToken: key.secret });
    const { statusCode, body } = await receiver.start()({ headers: request.headers, body: request.body, isBase64Encoded: false });
    if (statusCode !== 200) throw new Error(body);
    return true;
  },
};
