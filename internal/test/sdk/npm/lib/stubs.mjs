// Stand-ins for the packages of the frameworks that some verifiers are written for. The verifiers of
// nuxt-webhook-validators get the event {headers, body, config: {webhook: {PROVIDER: {…}}}}.
import { register } from "node:module";

const stubs = {
  "@pipedream/platform": "export const axios = undefined; export class ConfigurationError extends Error {}",
  h3: `
    export const getRequestHeaders = (event) => event.headers;
    export const readRawBody = async (event) => event.body;
    export const createError = ({ message }) => new Error(message);`,
  "#imports": "export const useRuntimeConfig = (event) => event.config;",
  scule: "export const snakeCase = (text) => text;",
};

const hooks = `
  const stubs = ${JSON.stringify(stubs)};
  export async function resolve(name, context, next) {
    const text = Object.hasOwn(stubs, name) ? stubs[name] : undefined;
    if (text === undefined) return next(name, context);
    return { url: "data:text/javascript," + encodeURIComponent(text), format: "module", shortCircuit: true };
  }`;

let registered = false;

// useStubs makes later imports find the stand-ins.
export function useStubs() {
  if (!registered) register("data:text/javascript," + encodeURIComponent(hooks));
  registered = true;
}
