/* page.js *//* data *//* page.css */
