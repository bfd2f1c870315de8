// Pipedrive sends plain basic authentication; its own SDK does not check it.
export default {
  provider: "pipedrive",
  sdk: "express-basic-auth",
  documented: true,
  async verify(request, key) {
    const { default: basicAuth } = await import("express-basic-auth");
    const [name, ...rest] = key.secret.split(":");
    return await new Promise((resolve) => {
      const response = { status: () => ({ send: () => resolve(false) }) };
      basicAuth({ users: { [name]: rest.join(":") } })({ headers: request.headers }, response, () => resolve(true));
    });
  },
};
