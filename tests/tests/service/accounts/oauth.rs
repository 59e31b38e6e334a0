//! The authorization server, from discovery to a refreshed token, and
//! what its tokens open.

mod discovery;
mod grants;
mod registration;
mod tokens;

const FOLDERS: &str = "GET /api/v1/mail/folders";
const UNUSABLE: &str = "Invalid or expired access token";
