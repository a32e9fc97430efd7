// Loaded before a program whose request time-out of 60 s cannot be set: lets it come sooner.

const { setTimeout } = globalThis;
globalThis.setTimeout = (callback, milliseconds, ...rest) =>
  setTimeout(callback, milliseconds === 60_000 ? Number(process.env.HURRY_MS) : milliseconds, ...rest);
