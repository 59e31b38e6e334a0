//! Input and output of the operator's commands: lines and tables, questions, passwords, and URLs
//! that can contain passwords.

pub mod database_url;
pub mod input;
pub mod output;
