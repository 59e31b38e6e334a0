// The alias routes of components/aliases, written in JavaScript.
//
// This file is the list of routes. actions.js contains the actions, description.js the API
// description, and latchmail.js the code that other modules in JavaScript could share.

import * as aliases from 'latchmail:host/aliases';
import * as caller from 'latchmail:host/caller';

import { checkAlias, createAlias, deleteAlias, listAliasDomains, listAliases, updateAlias } from './actions.js';
import { description } from './description.js';
import { del, get, patch, post, scoped, serve } from './latchmail.js';

// The maximum size of a request body, in bytes. The largest body has two short fields.
const SMALL = 16 * 1024;

const reading = { access: scoped('aliases:read', { oauth: true }), bucket: 'aliases' };
const writing = { access: scoped('aliases:write'), bucket: 'aliases' };

// The component exports this object under the name of the interface.
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
