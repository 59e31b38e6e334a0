// The routes of an account's aliases once more, in JavaScript: route for route what components/aliases is in Rust.
//
// This file is the route list. What an action does is in actions.js, how its route is described in description.js; latchmail.js is what any module
// in JavaScript would share.

import * as aliases from 'latchmail:host/aliases';
import * as caller from 'latchmail:host/caller';

import { checkAlias, createAlias, deleteAlias, listAliasDomains, listAliases, updateAlias } from './actions.js';
import { description } from './description.js';
import { del, get, patch, post, scoped, serve } from './latchmail.js';

// The largest body of any route, in bytes: two fields.
const SMALL = 16 * 1024;

const reading = { access: scoped('aliases-read', { oauth: true }), area: 'aliases' };
const writing = { access: scoped('aliases-write'), area: 'aliases' };

// What the component exports, under the interface's name.
export const module = serve({ aliases, caller }, {
  name: 'aliases',
  version: '0.1.0',
  description,
  routes: [
    get('/api/v1/aliases', listAliases, reading),
    post('/api/v1/aliases', createAlias, { ...writing, maxBody: SMALL }),
    get('/api/v1/aliases/domains', listAliasDomains, reading),
    get('/api/v1/aliases/check', checkAlias, reading),
    patch('/api/v1/aliases/{id}', updateAlias, { ...writing, maxBody: SMALL }),
    del('/api/v1/aliases/{id}', deleteAlias, writing),
  ],
});
