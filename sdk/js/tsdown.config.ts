import { defineConfig } from "tsdown";

export default defineConfig([
  {
    entry: {
      index: "src/browser/index.ts",
      "react-native": "src/react-native.ts",
      node: "src/node.ts",
    },
    format: "esm",
    target: "es2022",
    platform: "neutral",
    deps: { neverBundle: [/^node:/] },
    minify: true,
    dts: true,
    sourcemap: true,
  },
  {
    entry: { t: "src/script.ts" },
    format: "iife",
    target: "es2022",
    platform: "browser",
    minify: true,
    dts: false,
    clean: false,
  },
]);
