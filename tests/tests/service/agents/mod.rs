//! Agents: the MCP endpoint, and OAuth as clients, browsers and attackers use it.

mod mcp_conformance;
mod s4_9_agents;
mod s4_9_sdk;
mod s5_external_oauth;
mod s5_oauth_attacks;
mod s5_oauth_pages;
mod s5_oauth_pages_attacks;
mod s5_oauth_pages_modules;
mod s5_oauth_pages_redirects;
