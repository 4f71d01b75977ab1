#!/bin/sh
# Rebuilds ../assets/report.js, report.css and HASHES from src/ with the pinned packages.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --loglevel=error
node build.mjs
