/* Stands here until the widget does. */
"use strict";
